/* Spheres of unit vectors: drag, swipe sideways or use the arrow keys to turn one; hover over a point or tap it to read it. */
(() => {
  "use strict";

  const STEP = Math.PI / 30;
  const REACH = 12;
  const WALKS = { PageDown: 1, PageUp: -1 };
  const HINT = "hover over a point or tap it";
  const STAR = 10;
  const POINT = 3.6;
  const CROSS = 1.5;
  const STROKES = { barred: [1], crossed: [1, -1] };
  const RINGS = [0, 1, 2].map((axis) => Array.from({ length: 73 }, (_, i) => {
    const angle = (i / 36) * Math.PI;
    const ring = [0, 0, 0];
    ring[(axis + 1) % 3] = Math.cos(angle);
    ring[(axis + 2) % 3] = Math.sin(angle);
    return ring;
  }));

  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const apply = (matrix, vector) => matrix.map((row) => dot(row, vector));
  const column = (matrix, i) => matrix.map((row) => row[i]);
  const multiply = (a, b) => a.map((row) => [0, 1, 2].map((i) => dot(row, column(b, i))));

  function aboutAxis([x, y, z], angle) {
    const c = Math.cos(angle), s = Math.sin(angle), t = 1 - c;
    return [
      [t * x * x + c, t * x * y - s * z, t * x * z + s * y],
      [t * x * y + s * z, t * y * y + c, t * y * z - s * x],
      [t * x * z - s * y, t * y * z + s * x, t * z * z + c],
    ];
  }

  /* Repeated turning adds up rounding errors; Gram-Schmidt takes them out again. */
  function straighten(matrix) {
    const unit = (v) => v.map((value) => value / Math.hypot(...v));
    const first = unit(matrix[0]);
    const second = unit(matrix[1].map((value, i) => value - dot(matrix[1], first) * first[i]));
    return [first, second, [
      first[1] * second[2] - first[2] * second[1],
      first[2] * second[0] - first[0] * second[2],
      first[0] * second[1] - first[1] * second[0],
    ]];
  }

  function trace(pen, shape, r) {
    pen.beginPath();
    if (shape === "circle") { pen.arc(0, 0, r, 0, 2 * Math.PI); return; }
    const corners = { square: 4, diamond: 4, triangle: 3, star: 10 }[shape];
    for (let i = 0; i < corners; i += 1) {
      const angle = (2 * Math.PI * i) / corners + (shape === "square" ? Math.PI / 4 : 0);
      const reach = shape === "star" ? r * (i % 2 ? 0.42 : 1) : r * 1.15;
      pen.lineTo(reach * Math.sin(angle), -reach * Math.cos(angle));
    }
    pen.closePath();
  }

  function strike(pen, reach, sides) {
    for (const side of sides) {
      pen.moveTo(-reach, side * reach);
      pen.lineTo(reach, -side * reach);
    }
  }

  class Sphere {
    constructor(figure) {
      this.data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
      this.canvas = figure.querySelector("canvas");
      this.output = figure.querySelector("output");
      this.rotation = straighten(this.data.view);
      this.hidden = new Set();
      this.chosen = null;
      this.visited = -1;
      this.items = [
        ...this.data.points.map((place, i) => ({ place, shape: this.data.shapes[this.data.classes[i]],
          colour: this.data.colours[this.data.classes[i]], part: this.data.parts[i], name: this.pointName(i) })),
        ...this.data.prototypes.map((place, i) => ({ place, shape: "star",
          colour: this.data.colours[this.data.prototypeClasses[i]], part: -1, name: this.prototypeName(i) })),
      ];
      const stars = this.items.filter((item) => item.part < 0);
      this.stops = stars.length ? stars : this.items;
      this.canvas.hidden = this.output.hidden = false;
      this.listen();
      this.say(null);
    }

    pointName(i) {
      const name = this.data.names[i] ? `${this.data.names[i]}: ` : "";
      return `${name}${this.data.classNames[this.data.classes[i]]}, ${this.data.partNames[this.data.parts[i]]}`;
    }

    prototypeName(i) {
      return `prototype ${i + 1} of ${this.data.prototypes.length}, ${this.data.classNames[this.data.prototypeClasses[i]]}`;
    }

    listen() {
      let grip = null;
      this.canvas.addEventListener("pointerdown", (event) => {
        grip = [event.clientX, event.clientY];
        this.canvas.setPointerCapture(event.pointerId);
      });
      this.canvas.addEventListener("pointermove", (event) => {
        if (!grip) { this.say(this.near(event)); return; }
        const [dx, dy] = [event.clientX - grip[0], event.clientY - grip[1]];
        grip = [event.clientX, event.clientY];
        this.turn(dx / this.radius, dy / this.radius);
      });
      for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => { grip = null; });
      this.canvas.addEventListener("pointerleave", () => this.say(null));
      this.canvas.addEventListener("keydown", (event) => this.press(event));
      this.canvas.addEventListener("focus", () => { if (!grip) this.say(this.facing()); });
      this.canvas.addEventListener("blur", () => this.say(null));
      new ResizeObserver(() => this.fit()).observe(this.canvas);
      for (const query of ["print", "(prefers-color-scheme: dark)"]) {
        window.matchMedia(query).addEventListener("change", () => this.draw());
      }
    }

    press(event) {
      const step = event.shiftKey ? 4 * STEP : STEP;
      const turns = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key in turns) this.turn(...turns[event.key]);
      else if (event.key === "Home") this.rotation = straighten(this.data.view);
      else if (event.key === "Enter") { this.visit(event.shiftKey ? -1 : 1); event.preventDefault(); return; }
      else if (this.data.names.length && event.key in WALKS) { this.walk(WALKS[event.key]); event.preventDefault(); return; }
      else return;
      event.preventDefault();
      this.say(this.facing());
    }

    turn(right, down) {
      this.rotation = straighten(multiply(multiply(aboutAxis([1, 0, 0], down), aboutAxis([0, 1, 0], right)), this.rotation));
      this.draw();
    }

    /* Bring the next prototype (or point, where there are none) to the front and name it. */
    visit(direction) {
      const count = this.stops.length;
      if (!count) return;
      this.visited = (this.visited + direction + count + (this.visited < 0 && direction < 0 ? 1 : 0)) % count;
      this.bring(this.stops[this.visited]);
    }

    /* The next point that is shown, in the order of the data. */
    walk(direction) {
      const points = this.visible().filter((item) => item.part >= 0);
      if (!points.length) return;
      const at = points.indexOf(this.chosen);
      this.bring(points[(at + direction + points.length + (at < 0 && direction < 0 ? 1 : 0)) % points.length]);
    }

    bring(item) {
      const [x, y, z] = apply(this.rotation, item.place);
      const length = Math.hypot(x, y);
      if (length > 1e-6) {
        const swing = aboutAxis([y / length, -x / length, 0], Math.acos(Math.max(-1, Math.min(1, z))));
        this.rotation = straighten(multiply(swing, this.rotation));
      }
      this.say(item);
    }

    visible() {
      return this.items.filter((item) => !this.hidden.has(item.part));
    }

    /* The item under the pointer; a prototype wins over the points around it. */
    near(event) {
      const box = this.canvas.getBoundingClientRect();
      const x = event.clientX - box.left - this.middle, y = this.middle - (event.clientY - box.top);
      let best = null, least = REACH;
      for (const item of this.visible()) {
        const [px, py, pz] = apply(this.rotation, item.place);
        const distance = Math.hypot(px * this.radius - x, py * this.radius - y) - (item.part < 0 ? 4 : 0);
        if (pz >= 0 && distance < least) { best = item; least = distance; }
      }
      return best;
    }

    facing() {
      let best = null, most = -1;
      for (const item of this.visible()) {
        const depth = dot(this.rotation[2], item.place) + (item.part < 0 ? 0.005 : 0);
        if (depth > most) { best = item; most = depth; }
      }
      return best;
    }

    say(item) {
      this.chosen = item;
      this.output.classList.toggle("hint", !item);
      this.output.textContent = item ? item.name : HINT;
      const number = item ? this.items.indexOf(item) : -1;
      this.canvas.dispatchEvent(new CustomEvent("sphere-said", { bubbles: true, detail: number }));
      this.draw();
    }

    fit() {
      const width = this.canvas.clientWidth, density = window.devicePixelRatio || 1;
      this.canvas.width = this.canvas.height = Math.round(width * density);
      this.density = density;
      this.middle = width / 2;
      this.radius = 0.46 * width;
      this.draw();
    }

    draw() {
      if (!this.middle) return;
      const pen = this.canvas.getContext("2d");
      const style = getComputedStyle(this.canvas);
      const colour = (name) => style.getPropertyValue(`--${name}`).trim();
      pen.setTransform(this.density, 0, 0, this.density, 0, 0);
      pen.clearRect(0, 0, 2 * this.middle, 2 * this.middle);
      pen.translate(this.middle, this.middle);
      pen.beginPath();
      pen.arc(0, 0, this.radius, 0, 2 * Math.PI);
      pen.fillStyle = colour("surface");
      pen.fill();
      const placed = this.visible().map((item) => ({ item, at: apply(this.rotation, item.place) }));
      placed.sort((a, b) => a.at[2] - b.at[2]);
      for (const { item, at } of placed) if (at[2] < 0) this.mark(pen, item, at, colour);
      this.grid(pen, colour("rule"));
      const front = placed.filter(({ at }) => at[2] >= 0);
      for (const { item, at } of front) if (item.part >= 0) this.mark(pen, item, at, colour);
      for (const { item, at } of front) if (item.part < 0) this.mark(pen, item, at, colour);
      if (this.chosen) this.ring(pen, apply(this.rotation, this.chosen.place), colour("ink"));
    }

    grid(pen, colour) {
      pen.beginPath();
      pen.arc(0, 0, this.radius, 0, 2 * Math.PI);
      this.stroke(pen, colour, 1);
      for (const ring of RINGS) {
        pen.beginPath();
        let drawing = false;
        for (const place of ring) {
          const [x, y, z] = apply(this.rotation, place);
          if (z >= 0) pen[drawing ? "lineTo" : "moveTo"](x * this.radius, -y * this.radius);
          drawing = z >= 0;
        }
        pen.stroke();
      }
    }

    mark(pen, item, [x, y, z], colour) {
      const star = item.part < 0;
      pen.save();
      pen.translate(x * this.radius, -y * this.radius);
      pen.globalAlpha = z >= 0 ? 1 : 0.25;
      pen.lineJoin = "round";
      trace(pen, item.shape, (star ? STAR : POINT) * (0.85 + 0.15 * z));
      if (star) this.stroke(pen, colour("paper"), 5);
      pen.fillStyle = colour(item.colour);
      const how = star ? "filled" : this.data.marks[item.part];
      if (how in STROKES) strike(pen, CROSS * POINT, STROKES[how]);
      if (how === "filled") pen.fill();
      else this.stroke(pen, colour(item.colour), 1.3);
      if (star) this.stroke(pen, colour("ink"), 1.3);
      pen.restore();
    }

    stroke(pen, colour, width) {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.stroke();
    }

    ring(pen, [x, y], colour) {
      pen.beginPath();
      pen.arc(x * this.radius, -y * this.radius, 13, 0, 2 * Math.PI);
      this.stroke(pen, colour, 1.5);
    }
  }

  const spheres = [...document.querySelectorAll("[data-sphere]")].map((figure) => new Sphere(figure));
  for (const box of document.querySelectorAll("[data-sphere-part]")) {
    box.hidden = false;
    box.addEventListener("change", () => {
      for (const sphere of spheres) {
        sphere.hidden[box.checked ? "delete" : "add"](Number(box.dataset.spherePart));
        sphere.say(null);
      }
    });
  }
})();
