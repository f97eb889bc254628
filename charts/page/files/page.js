"use strict";

// Keeps the page up to date: it fetches the page again and changes only what differs,
// so that focus, selection and scroll position are kept.

const every = 2000; // milliseconds
const live = document.getElementById("live");
const trouble = document.getElementById("trouble");

// morph changes the node "from", which is on the page, until it equals the node "to".
function morph(from, to) {
	if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
		from.replaceWith(to.cloneNode(true));
		return;
	}
	if (from.nodeType !== Node.ELEMENT_NODE) {
		if (from.data !== to.data) from.data = to.data;
		return;
	}
	if (from.nodeName === "INPUT") return; // keep what the user typed
	for (const { name, value } of to.attributes) {
		if (from.getAttribute(name) !== value) from.setAttribute(name, value);
	}
	for (const { name } of [...from.attributes]) {
		if (!to.hasAttribute(name)) from.removeAttribute(name);
	}
	while (from.childNodes.length > to.childNodes.length) from.lastChild.remove();
	to.childNodes.forEach((child, i) => {
		if (i < from.childNodes.length) morph(from.childNodes[i], child);
		else from.append(child.cloneNode(true));
	});
}

async function refresh() {
	if (live.checked && !document.hidden) {
		try {
			const res = await fetch(location.pathname + location.search, { signal: AbortSignal.timeout(10000) });
			if (!res.ok) throw new Error(`the worker answered with status ${res.status}`);
			const next = new DOMParser().parseFromString(await res.text(), "text/html");
			document.title = next.title;
			for (const id of ["state", "main"]) morph(document.getElementById(id), next.getElementById(id));
			trouble.textContent = "";
		} catch (error) {
			trouble.textContent = `Not up to date: ${error.message}`;
		}
	}
	setTimeout(refresh, every);
}

document.getElementById("live-switch").hidden = false;
setTimeout(refresh, every);
