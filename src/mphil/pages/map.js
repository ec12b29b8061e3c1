/* Shows the molecule that a sphere names: the sphere says a number, this draws its picture beside it. */
(() => {
  "use strict";

  for (const map of document.querySelectorAll("[data-map]")) {
    const data = JSON.parse(map.querySelector("script[data-pictures]").textContent);
    const card = map.querySelector(".looked-at");
    const [image, smiles, detail] = ["img", "code", ".detail"].map((what) => card.querySelector(what));
    const names = JSON.parse(map.querySelector("[data-sphere] script").textContent).names;
    card.hidden = false;
    map.addEventListener("sphere-said", (event) => {
      const number = event.detail;
      if (number < 0) return; /* What was looked at last stays. */
      image.hidden = false;
      image.src = `data:image/svg+xml,${encodeURIComponent(data.pictures[number])}`;
      smiles.textContent = names[number] || "";
      detail.textContent = data.details[number];
      image.alt = names[number] || data.details[number];
    });
  }
})();
