// The index is asked for when somebody wants to search, and not before. A browser lets no page from a disk read it: the
// search is there where the site is served.
const field = document.getElementById("mkdocs-search-query");
const found = document.getElementById("mkdocs-search-results");
const MOST = 30;
let worker = null;
let ready = false;

function ask() {
  if (ready && field.value.trim().length > 1) worker.postMessage({ query: field.value });
  else if (!field.value.trim()) found.replaceChildren();
}

function show(results) {
  const told = document.createElement("p");
  told.textContent = results.length ? `${results.length} found${results.length > MOST ? `, the first ${MOST}` : ""}` : "Nothing found";
  found.replaceChildren(told, ...results.slice(0, MOST).map((result) => {
    const entry = document.createElement("p");
    const link = document.createElement("a");
    link.href = `${base_url}/${result.location}`;
    link.textContent = result.title;
    const summary = document.createElement("span");
    summary.textContent = result.summary;
    entry.append(link, summary);
    return entry;
  }));
}

if (location.protocol !== "file:") {
  field.parentElement.hidden = false;
  field.addEventListener("input", ask);
  field.addEventListener("focus", () => {
    worker = new Worker(`${base_url}/search/worker.js`);
    worker.onmessage = ({ data }) => {
      if (data.allowSearch) { ready = true; ask(); }
      else if (data.results) show(data.results);
    };
    worker.postMessage({ init: true });
  }, { once: true });
}
