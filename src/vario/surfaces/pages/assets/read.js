// Reads values from charts: under the pointer, or with the arrow keys; the same step in every chart.
(() => {
  "use strict";
  const numbers = (text) => (text ? text.split(" ").map(Number) : []);
  const known = new WeakMap();

  const data = (chart) => {
    if (!known.has(chart)) {
      const { first, last, steps, ends, values, least, most } = chart.dataset;
      known.set(chart, {
        first: +first, last: +last, steps: numbers(steps), ends: numbers(ends), values: numbers(values), least: numbers(least), most: numbers(most),
      });
    }
    return known.get(chart);
  };

  const nearest = (steps, step) => {
    let low = 0, high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - steps[low - 1] <= steps[low] - step ? low - 1 : low;
  };

  const told = ({ steps, ends, values, least, most }, i) => {
    const at = ends.length && ends[i] !== steps[i] ? `steps ${steps[i]} to ${ends[i]}` : `step ${steps[i]}`;
    return `${at}: ${values[i]}${least.length && least[i] !== most[i] ? ` (${least[i]} to ${most[i]})` : ""}`;
  };

  const show = (chart, step) => {
    const reading = chart.querySelector(".reading"), cursor = chart.querySelector(".cursor"), held = data(chart);
    if (step === null || !held.steps.length) {
      reading.textContent = "";
      cursor.hidden = true;
      return;
    }
    const i = nearest(held.steps, step);
    const at = (100 * (held.steps[i] - held.first)) / Math.max(1, held.last - held.first);
    reading.textContent = told(held, i);
    cursor.hidden = false;
    cursor.style.left = `${at}%`;
  };

  // one voice for all charts: what the keys have moved to is said, what the pointer passes over is not
  const voice = document.createElement("div");
  voice.className = "voice";
  voice.setAttribute("role", "status");
  document.body.append(voice);

  let at = null, asked = false;
  const showAll = (step) => {
    at = step;
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      document.querySelectorAll(".chart").forEach((chart) => { if (chart.checkVisibility?.() ?? true) show(chart, at); });
    });
  };

  document.addEventListener("pointermove", (event) => {
    const plotted = event.target.closest?.(".plotted");
    if (plotted) {
      const box = plotted.getBoundingClientRect(), { first, last } = data(plotted.closest(".chart"));
      showAll(first + ((event.clientX - box.left) / box.width) * (last - first));
    } else if (at !== null && !document.activeElement?.closest(".plotted")) showAll(null);
  });
  document.addEventListener("keydown", (event) => {
    const plotted = event.target.closest?.(".plotted");
    if (!plotted || event.altKey || event.ctrlKey || event.metaKey) return;
    const held = data(plotted.closest(".chart")), { steps } = held;
    if (!steps.length) return;
    const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    let i = at === null ? (move < 0 ? steps.length : -1) : nearest(steps, at);
    if (move) i = Math.min(Math.max(i + move, 0), steps.length - 1);
    else if (event.key === "Home") i = 0;
    else if (event.key === "End") i = steps.length - 1;
    else if (event.key === "Escape") i = null;
    else return;
    event.preventDefault();
    showAll(i === null ? null : steps[i]);
    voice.textContent = i === null ? "" : told(held, i);
  });
  document.addEventListener("focusout", (event) => { if (event.target.closest?.(".plotted")) { voice.textContent = ""; showAll(null); } });

  // what scrolls can be scrolled with the keys
  const reachable = () => document.querySelectorAll(".scroll").forEach((box) => {
    if (box.scrollWidth > box.clientWidth + 1) { box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", "table"); }
    else { box.removeAttribute("tabindex"); box.removeAttribute("role"); box.removeAttribute("aria-label"); }
  });
  addEventListener("resize", reachable);
  document.addEventListener("toggle", reachable, true);
  reachable();

  // a link to what lies in something closed opens it
  const uncover = () => {
    const aim = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let box = aim && aim.closest("details:not([open])"); box; box = box.parentElement?.closest("details:not([open])")) box.open = true;
    if (aim) aim.scrollIntoView();
  };
  addEventListener("hashchange", uncover);
  if (location.hash) uncover();

  // all of it is printed but the tables of the curves
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.open-in-print:not([open])")];
    opened.forEach((box) => { box.open = true; });
  });
  addEventListener("afterprint", () => { opened.forEach((box) => { box.open = false; }); opened = []; });

  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  try { const kept = localStorage.getItem("vario-theme"); if (kept === "dark" || kept === "light") root.dataset.theme = kept; } catch { /* a file opened from disk may keep nothing */ }
  const theme = document.querySelector("[data-action=theme]");
  if (theme) {
    theme.hidden = false;
    theme.setAttribute("aria-pressed", String(isDark()));
    theme.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      theme.setAttribute("aria-pressed", String(isDark()));
      try { localStorage.setItem("vario-theme", root.dataset.theme); } catch { /* likewise */ }
    });
  }
})();
