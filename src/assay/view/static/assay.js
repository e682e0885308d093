/* The script of all pages. Without it the pages work too: every link and form is a real one.
   It replaces parts of a page instead of loading it, adds keys and copy buttons, and shows progress live. */
"use strict";

const FRAGMENT = "Assay-Fragment";
let request = null; // the fragment that is being loaded; a newer one cancels it

/* Fragments: `data-into="ID"` on a link or form loads its address and replaces the element with this id. */
async function load(address, id, { push = true } = {}) {
  if (request) request.abort();
  request = new AbortController();
  const target = document.getElementById(id);
  target?.setAttribute("aria-busy", "true");
  const textsBefore = new Map([...(target?.querySelectorAll("input[name]:not([type=checkbox], [type=hidden])") ?? [])].map((each) => [each, each.value]));
  try {
    const response = await fetch(address, { headers: { [FRAGMENT]: id }, signal: request.signal });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.getElementById(id);
    // An error page, or the page of a run whose index is being built, has no such element.
    if (!response.ok || !fresh || !target) { location.href = address; return; }
    const field = target.contains(document.activeElement) ? document.activeElement : null;
    target.querySelectorAll("details[open][id]").forEach((each) => { fresh.querySelector(`#${CSS.escape(each.id)}`)?.setAttribute("open", ""); });
    target.replaceWith(fresh);
    // Whoever chose something with the keyboard goes on from there.
    const isSame = (each) => each.name === field.name && each.type === field.type && (each.type !== "checkbox" || each.value === field.value);
    const next = field?.name ? [...fresh.querySelectorAll("[name]")].find(isSame) : null;
    // So does whoever typed while the part was being loaded.
    for (const [each, text] of textsBefore) {
      const again = each.value !== text && fresh.querySelector(`input[name="${CSS.escape(each.name)}"]`);
      if (again) again.value = each.value;
    }
    next?.focus();
    // A field for a number has no selection.
    if (next && typeof field.selectionStart === "number") next.setSelectionRange(field.selectionStart, field.selectionEnd);
    if (push) history.pushState({ into: id }, "", address);
    prepare(fresh);
  } catch (error) {
    if (error.name !== "AbortError") location.href = address;
  }
}

document.addEventListener("click", (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) return copyText(copy);
  const open = event.target.closest("[data-open]");
  if (open) return document.getElementById(open.dataset.open).showModal();
  const link = event.target.closest("a[data-into]");
  // A new tab or window is the browser's own work.
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  load(link.href, link.dataset.into, { push: !("quiet" in link.dataset) });
});

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-into]");
  if (form) { event.preventDefault(); submit(form); }
  // A form with `data-once` is sent once, also after a double click or two keys.
  if (!("once" in event.target.dataset)) return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "1";
});

// A choice applies at once; a text when Enter is pressed.
document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-into]");
  if (form && event.target.matches("select, input[type=checkbox], input[type=number]")) submit(form);
});

function submit(form) {
  const address = new URL(form.action || location.href, location.href);
  const fields = [...new FormData(form)].filter(([, value]) => value !== "");
  address.search = new URLSearchParams(fields).toString();
  load(address.href, form.dataset.into);
}

addEventListener("popstate", (event) => {
  if (event.state?.into) load(location.href, event.state.into, { push: false });
});

/* Live: `data-live="ADDRESS"` opens a stream. One stream for each element; closed while the page is hidden, because a
   browser has six connections to a server for all its tabs. */
let streams = [];
function openStreams() {
  streams.forEach((stream) => stream.close());
  streams = document.hidden ? [] : [...document.querySelectorAll("[data-live]")].map((element) => {
    const stream = new EventSource(element.dataset.live);
    stream.onmessage = (event) => {
      for (const [id, html] of Object.entries(JSON.parse(event.data))) {
        const target = document.getElementById(id);
        // The server has escaped every text in it, and the page's policy runs no script in it.
        if (target) target.innerHTML = html;
      }
    };
    stream.addEventListener("over", () => { stream.close(); location.reload(); });
    return stream;
  });
}
document.addEventListener("visibilitychange", openStreams);

/* Copy buttons copy the text of the `pre` in the element that they name. */
async function copyText(button) {
  const text = document.querySelector(`#${CSS.escape(button.dataset.copy)} pre`).textContent;
  let done = true;
  try { await navigator.clipboard.writeText(text); } catch { done = false; }
  const before = button.textContent;
  button.textContent = done ? "Copied" : "Not allowed by the browser";
  setTimeout(() => { button.textContent = before; }, 1500);
}

/* Keys */
const rows = () => [...document.querySelectorAll("table.list a.row, .hits a.row")];
function move(step) {
  const all = rows();
  if (!all.length) return follow(step > 0 ? "next" : "prev");
  const at = all.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step;
  if (all[next]) all[next].focus();
  return true;
}
function follow(relation) {
  const link = document.querySelector(`main a[rel=${relation}]`);
  link?.click();
  return Boolean(link);
}
const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  u: () => follow("up"),
  PageDown: () => follow("next"),
  PageUp: () => follow("prev"),
  "/": () => { const field = document.querySelector("[data-search]"); field?.focus(); return Boolean(field); },
  "?": () => { document.getElementById("keys").showModal(); return true; },
};
/* `data-key="y"` on a button: the key presses it. */
function press(key) {
  const button = /^[a-z]$/.test(key) && document.querySelector(`main button[data-key="${key}"]`);
  if (!button) return false;
  button.click();
  return true;
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  if (!event.repeat && press(event.key)) event.preventDefault();
  else if (KEYS[event.key]?.()) event.preventDefault();
});

/* What needs the script is hidden without it. */
function prepare(part) {
  part.querySelectorAll("[data-copy][hidden], [data-open][hidden]").forEach((element) => { element.hidden = false; });
  if (part === document || part.matches("[data-live]") || part.querySelector("[data-live]")) openStreams();
}
// The back button may show a page as it was left, after its form was sent.
addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach((form) => { delete form.dataset.sent; }));
if (document.getElementById("rows")) history.replaceState({ into: "rows" }, "");
prepare(document);
