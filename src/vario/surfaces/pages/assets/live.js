// Keeps a page of the dashboard up to date, and looks closer at curves. The server makes the HTML; this swaps it in.
(() => {
  "use strict";
  const line = document.querySelector("[data-line=events]");
  const regions = () => document.querySelectorAll("[data-live]");
  const pending = new WeakMap(), shown = new WeakMap();
  let drag = null, composing = false;
  document.addEventListener("compositionstart", () => { composing = true; });
  document.addEventListener("compositionend", () => { composing = false; });

  // What the reader has opened, written, chosen or stands on stays as it is.
  const summaries = (region) => region.querySelectorAll("details > summary");
  const fields = (region) => region.querySelectorAll("input:not([type=hidden]), select, textarea");
  const stops = (region) => region.querySelectorAll("a, button, summary, input, select, textarea, [tabindex]");
  const ofForm = (field) => field.form ? `${field.form.action} ${field.form.querySelector("[type=hidden]")?.value}` : "";
  const nameOf = (e) => [e.tagName, e.getAttribute("aria-label"), e.getAttribute("href"), e.name, e.value === undefined ? "" : ofForm(e),
    e.matches(".plotted, input, select, textarea") ? "" : e.textContent].join("\n");
  const cursorOf = (plotted) => {
    const chart = plotted.closest(".chart"), cursor = plotted.querySelector(".cursor");
    if (cursor.hidden) return null;
    return Number(chart.dataset.first) + (parseFloat(cursor.style.left) / 100) * (chart.dataset.last - chart.dataset.first);
  };
  const kept = (region) => {
    const at = document.activeElement, inside = region.contains(at) && at !== region;
    return {
      open: [...summaries(region)].map((s) => [s.textContent, s.parentElement.open]),
      written: [...fields(region)].filter((f) => f.value !== f.defaultValue && f.tagName !== "SELECT").map((f) => [nameOf(f), f.value]),
      focus: inside ? nameOf(at) : null,
      selected: inside && at.matches("input:not([type=checkbox]), textarea") ? [at.selectionStart, at.selectionEnd] : null,
      read: inside && at.matches(".plotted") ? cursorOf(at) : null,
    };
  };
  const restore = (region, was) => {
    const open = new Map(was.open), written = new Map(was.written);
    for (const summary of summaries(region)) {
      if (open.has(summary.textContent)) summary.parentElement.open = open.get(summary.textContent);
    }
    for (const field of fields(region)) if (written.has(nameOf(field))) field.value = written.get(nameOf(field));
    const again = was.focus && [...stops(region)].find((e) => nameOf(e) === was.focus);
    if (!again) return;
    again.focus({ preventScroll: true });
    if (was.selected) again.setSelectionRange(...was.selected);
    if (was.read !== null) {
      // the reading goes on where it was: as if the pointer stood there
      const { first, last } = again.closest(".chart").dataset, box = again.getBoundingClientRect();
      const clientX = box.left + ((was.read - first) / Math.max(1, last - first)) * box.width;
      if (was.read >= first && was.read <= last) again.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX }));
    }
  };
  // a selection, a drag, a word that is being composed: none of them outlives its elements
  const isBusy = (region) => {
    const selection = getSelection();
    return (drag && region.contains(drag.plotted)) || (composing && region.contains(document.activeElement))
      || (!selection.isCollapsed && region.contains(selection.anchorNode));
  };

  const told = (region, before) => {
    const now = [...region.querySelectorAll("article.finding")].map((f) => f.id.replace("finding-", ""));
    const fresh = now.filter((name) => !before.includes(name));
    if (fresh.length) line.textContent = `live; new: ${fresh.join(", ")}`;
    const action = region.querySelector("h2.action");
    if (action && region.dataset.titled) document.title = `${action.textContent}: ${region.dataset.titled}`;
  };

  // Resolves once the region shows what its address gives now.
  const swap = async (region) => {
    if (pending.has(region)) { pending.set(region, "again"); return; }
    pending.set(region, "asked");
    do {
      pending.set(region, "asked");
      try {
        const from = region.dataset.live, answer = await fetch(from), text = await answer.text();
        while (isBusy(region)) await new Promise((go) => setTimeout(go, 250));
        // of what was asked before the reader chose other steps nothing is shown
        if (answer.ok && from === region.dataset.live && text !== shown.get(region)) {
          const was = kept(region), before = [...region.querySelectorAll("article.finding")].map((f) => f.id.replace("finding-", ""));
          const page = new DOMParser().parseFromString(text, "text/html");
          region.replaceChildren(...page.body.childNodes);
          shown.set(region, text);
          restore(region, was);
          told(region, before);
        } else if (from !== region.dataset.live) pending.set(region, "again");
      } catch { /* the line above says that the dashboard cannot be reached */ }
    } while (pending.get(region) === "again");
    pending.delete(region);
  };

  if (regions().length || document.querySelector("[data-reload]")) {
    // from the state that the page was made of, so that nothing falls between the page and the line
    const listen = () => {
      const events = new EventSource("/events?since=" + document.body.dataset.state);
      events.onopen = () => { if (!line.textContent.startsWith("live")) line.textContent = "live"; };
      events.onerror = () => { line.textContent = "not connected; trying again"; };
      events.onmessage = (event) => {
        const changed = JSON.parse(event.data);
        document.body.dataset.state = event.lastEventId;
        for (const region of regions()) {
          if (!region.dataset.run || region.dataset.run in changed) swap(region);
        }
        const waits = document.querySelector("[data-reload]");
        if (waits && waits.dataset.reload in changed) location.reload();
      };
      return events;
    };
    // a browser holds six lines to one server: pages that nobody looks at must not take them from those that are open
    let events = null;
    const follow = (seen) => {
      events?.close();
      events = seen ? listen() : null;
    };
    follow(!document.hidden);
    document.addEventListener("visibilitychange", () => follow(!document.hidden));
    addEventListener("pagehide", () => follow(false));
    addEventListener("pageshow", (event) => { if (event.persisted) follow(!document.hidden); });
  }

  // Every other metric is drawn when somebody asks for it.
  const fill = async (details) => {
    const at = details.dataset.load;
    if (!at || at === details.dataset.loaded) return;
    details.dataset.loaded = at;
    try {
      const answer = await fetch(at);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (at !== details.dataset.load) return;
      details.querySelector("div").replaceChildren(...page.body.childNodes);
      // a link to one of these curves has waited for it
      if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
    } catch { delete details.dataset.loaded; }
  };
  document.addEventListener("toggle", (event) => { if (event.target.open && event.target.dataset?.load) fill(event.target); }, true);


  // Looking closer: the chosen steps stand in the address, so that what one sees can be sent.
  const panels = document.querySelector("[data-panels]");
  if (!panels) return;
  const form = document.querySelector("[data-span]"), rest = document.querySelector("[data-load]"), drawn = rest.dataset.load.split("?")[0];
  const whole = () => {
    const chart = panels.querySelector(".chart");
    return chart ? [Number(chart.dataset.wholeFirst), Number(chart.dataset.wholeLast)] : [0, 1];
  };
  const spanOf = (chart) => [Number(chart.dataset.first), Number(chart.dataset.last)];

  // a link to a curve that no panel holds: it is among the other metrics
  const among = () => {
    if (location.hash.startsWith("#chart-") && !document.getElementById(decodeURIComponent(location.hash.slice(1)))) rest.open = true;
  };
  addEventListener("hashchange", among);
  among();

  const look = (span, remember = true) => {
    const query = new URLSearchParams(location.search);
    for (const end of [0, 1]) {
      const name = ["from", "to"][end];
      if (span) query.set(name, span[end]); else query.delete(name);
      form.elements[name].value = span ? span[end] : "";
    }
    const text = query.toString() ? `?${query}` : "";
    panels.dataset.live = panels.dataset.panels + text;
    if (remember) history.pushState({ span }, "", location.pathname + text + location.hash);
    rest.dataset.load = drawn + text;
    if (rest.open) fill(rest);
    return swap(panels);
  };
  const within = ([first, last]) => {
    const [low, high] = whole();
    const a = Math.max(Math.round(first), low), b = Math.min(Math.round(last), high);
    return a <= low && b >= high ? null : b > a ? [a, b] : undefined;
  };
  const fromAddress = () => {
    const q = new URLSearchParams(location.search);
    return q.has("from") || q.has("to") ? [q.get("from") || whole()[0], q.get("to") || whole()[1]] : null;
  };
  addEventListener("popstate", () => {
    // a step to another heading of this page is no other look at its curves
    const span = fromAddress(), has = [form.elements.from.value, form.elements.to.value];
    if (String(span || ["", ""]) !== String(has)) look(span, false);
  });
  form.addEventListener("submit", (event) => {
    const first = form.elements.from.value.trim(), last = form.elements.to.value.trim();
    if (!/^-?\d*$/.test(first) || !/^-?\d*$/.test(last)) return;
    event.preventDefault();
    const [low, high] = whole();
    const wished = within([first === "" ? low : Number(first), last === "" ? high : Number(last)]);
    if (wished !== undefined) look(wished);
  });
  form.querySelector("[data-all]").addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    look(null);
  });

  // A mouse or a pen draws out the steps; a finger does so sideways, and scrolls up and down.
  panels.addEventListener("pointerdown", (event) => {
    const plotted = event.target.closest(".plotted");
    if (!plotted || event.button !== 0 || !event.isPrimary) return;
    const box = plotted.getBoundingClientRect();
    const chosen = document.createElement("span");
    chosen.className = "chosen";
    drag = { plotted, box, from: event.clientX, to: event.clientX, chosen };
    plotted.append(chosen);
    plotted.setPointerCapture(event.pointerId);
  });
  panels.addEventListener("pointermove", (event) => {
    if (!drag || !event.isPrimary) return;
    drag.to = Math.min(Math.max(event.clientX, drag.box.left), drag.box.right);
    const left = Math.min(drag.from, drag.to) - drag.box.left, wide = Math.abs(drag.to - drag.from);
    drag.chosen.style.left = `${(100 * left) / drag.box.width}%`;
    drag.chosen.style.width = `${(100 * wide) / drag.box.width}%`;
  });
  const end = (event) => {
    if (!drag || !event.isPrimary) return;
    const { plotted, box, from, to, chosen } = drag;
    drag = null;
    chosen.remove();
    if (event.type !== "pointerup" || Math.abs(to - from) < 8) return;
    const [first, last] = spanOf(plotted.closest(".chart"));
    const step = (x) => first + ((x - box.left) / box.width) * (last - first);
    const wished = within([step(Math.min(from, to)), step(Math.max(from, to))]);
    if (wished !== undefined) look(wished);
  };
  panels.addEventListener("pointerup", end);
  panels.addEventListener("pointercancel", end);
  panels.addEventListener("dblclick", (event) => { if (event.target.closest(".plotted")) look(null); });
  panels.addEventListener("keydown", (event) => {
    const plotted = event.target.closest(".plotted");
    if (!plotted || !["+", "-", "=", "0"].includes(event.key) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (event.key === "0") { look(null); return; }
    const [first, last] = spanOf(plotted.closest(".chart"));
    const at = cursorOf(plotted) ?? (first + last) / 2;
    const share = (at - first) / Math.max(1, last - first), wide = (last - first) * (event.key === "-" ? 2 : 0.5);
    const wished = within([at - share * wide, at + (1 - share) * wide]);
    if (wished !== undefined) look(wished);
  });
})();
