// Says in the footer how this page came: what the server called itself, and how many bytes the page has.
fetch(location.href, { method: "HEAD" }).then((reply) => {
  const note = document.createElement("span");
  note.id = "served";
  note.textContent = ` Served by ${reply.headers.get("server")}: ${reply.headers.get("content-length")} bytes.`;
  document.querySelector("footer").append(note);
});
