// Draws each picture of a page anew by uPlot: with a cursor that tells the numbers. Without it the pictures stay as they are.
"use strict";
(() => {
  const shade = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const drawn = [];

  function axes(kind) {
    const look = { stroke: shade("--soft"), grid: { stroke: shade("--edge"), width: 1 }, ticks: { show: false } };
    const x = kind === "log" ? { ...look, values: (_, at) => at.map((v) => (v && Number.isInteger(Math.log10(v)) ? v.toLocaleString("en") : null)) } : look;
    return [{ ...x, grid: { show: false } }, { ...look, size: 56 }];
  }

  function draw(figure) {
    const told = JSON.parse(figure.querySelector("script").textContent);
    const place = figure.querySelector(".plot");
    const series = told.series.map((each) => ({
      label: each.label,
      stroke: shade("--hue"),
      width: 2,
      dash: each.dashed ? [5, 5] : undefined,
      paths: each.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
      points: { show: false },
      spanGaps: true,
      value: (_, v) => (v == null ? "–" : v.toLocaleString("en", { maximumFractionDigits: 3 })),
    }));
    const options = {
      width: place.clientWidth,
      height: 210,
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      scales: { x: told.kind === "log" ? { time: false, distr: 3 } : { time: true }, y: { range: [0, told.y[0]] } },
      axes: axes(told.kind),
      series: [told.kind === "log" ? { label: "rows" } : { label: "UTC" }, ...series],
    };
    place.replaceChildren();
    drawn.push([figure, place, new uPlot(options, [told.x, ...told.series.map((each) => each.values)], place)]);
  }

  const all = () => document.querySelectorAll("figure.chart").forEach(draw);
  all();
  window.addEventListener("resize", () => drawn.forEach(([, place, plot]) => plot.setSize({ width: place.clientWidth, height: 210 })));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    drawn.splice(0).forEach(([, , plot]) => plot.destroy());
    all();
  });
})();
