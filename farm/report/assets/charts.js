// Draws the charts: each when it comes into view, all before the page is printed, and again when the theme changes.
"use strict";
(() => {
  const PAPER_PX = 680;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const shorter = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const digits = (value) => (value === null ? "" : String(Number(value.toPrecision(4))));
  const narrow = () => innerWidth < 640;

  const colours = () => ({
    text: css("--text"), quiet: css("--quiet"), line: css("--line"), surface: css("--surface"),
    accent: css("--accent"), worse: css("--worse"), before: css("--before"), wash: css("--wash"),
  });

  function axis(c, title, more) {
    return {
      title: {text: title || "", font: {color: c.quiet, size: 12}, standoff: 8}, gridcolor: c.line, linecolor: c.line,
      zeroline: false, tickfont: {color: c.quiet, size: 11}, automargin: true, ...more,
    };
  }

  function layout(c, height, more) {
    return {
      height, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: {l: 8, r: 12, t: 8, b: 8, pad: 4},
      font: {family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", size: 12, color: c.text},
      legend: {orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: {color: c.quiet}, itemclick: false,
        itemdoubleclick: false, bgcolor: "rgba(0,0,0,0)"},
      hoverlabel: {bgcolor: c.surface, bordercolor: c.line, font: {color: c.text}, align: "left"},
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", ...more,
    };
  }

  // Bytes as megabytes, so that the axis has figures that one can read.
  function scaled(chart) {
    if (chart.unit !== "bytes") return {factor: 1, unit: chart.unit};
    return {factor: 1 / 2 ** 20, unit: "MiB"};
  }

  // The date where it is another than at the tick before, the year where that is.
  function tickText(tick, before) {
    const isNew = !before || before.date !== tick.date, isNewYear = !before || before.date.slice(-5) !== tick.date.slice(-5);
    return [tick.hour, isNew && (isNewYear ? tick.date : tick.date.slice(0, -5))].filter(Boolean).join("<br>");
  }

  function history(chart, c) {
    const {factor, unit} = scaled(chart), times = (value) => (value === null ? null : value * factor);
    const told = (i) => [chart.time[i] && `${chart.time[i].replace("T", " ")} UTC`, chart.note[i]].filter(Boolean).join(", ");
    const points = (name, states, marker) => {
      const at = chart.time.map((_, i) => i)
        .filter((i) => states.includes(chart.state[i]) && chart.value[i] !== null);
      return {
        name, type: "scatter", mode: "markers", x: at,
        y: at.map((i) => times(chart.value[i])), marker,
        hovertext: at.map((i) => plain(`${digits(times(chart.value[i]))} ${unit}\n${told(i)}`).replace("\n", "<br>")),
        hoverinfo: "text",
      };
    };
    const without = chart.time.map((_, i) => i).filter((i) => chart.value[i] === null);
    const failed = (i) => chart.state[i] === "failed";
    const absent = {
      name: "no figure", type: "scatter", mode: "markers", yaxis: "y2", x: without,
      y: without.map(() => 0.5), hovertext: without.map((i) => plain(told(i))), hoverinfo: "text", cliponaxis: false,
      marker: {size: 9, symbol: without.map((i) => (failed(i) ? "x-thin" : "circle-open")),
        color: without.map((i) => (failed(i) ? c.worse : c.quiet)),
        line: {width: 2, color: without.map((i) => (failed(i) ? c.worse : c.quiet))}},
    };
    // A change lies between the night before it and its first one.
    const upright = (at, dash) => ({type: "line", x0: at - 0.5, x1: at - 0.5, yref: "paper", y0: 0, y1: 1,
      line: {color: c.quiet, width: 1.5, dash}});
    const size = chart.time.length > 120 ? 4.5 : 6;
    const steady = chart.time.map((_, i) => i).filter((i) => chart.low[i] !== null && chart.low[i] !== chart.high[i]);
    const spread = {
      name: "range of a night", type: "scatter", mode: "lines", hoverinfo: "skip", line: {color: c.wash, width: 3},
      x: steady.flatMap((i) => [i, i, null]),
      y: steady.flatMap((i) => [times(chart.low[i]), times(chart.high[i]), null]),
    };
    const levels = {
      name: "level", type: "scatter", mode: "lines", hoverinfo: "skip", line: {color: c.text, width: 2},
      x: chart.levels.flatMap((each) => [each.from - 0.4, each.to + 0.4, null]),
      y: chart.levels.flatMap((each) => [times(each.value), times(each.value), null]),
    };
    const traces = [
      ...(steady.length ? [spread] : []), ...(chart.levels.length ? [levels] : []),
      points("night", ["good"], {color: c.accent, size}),
      points("with re-runs", ["rerun"], {color: c.accent, size: 9, symbol: "diamond"}),
      points("spoiled, left out", ["spoiled"], {color: c.quiet, size: 8, symbol: "circle-open", line: {width: 1.5}}),
      points("failed", ["failed"], {color: c.worse, size: 9, symbol: "x-thin", line: {width: 2, color: c.worse}}),
      absent,
    ].filter((trace) => trace.x.length);
    const shownTicks = chart.ticks.filter((_, i) => !narrow() || (chart.ticks.length - 1 - i) % 2 === 0);
    const nights = {range: [-0.7, chart.time.length - 0.3], tickvals: shownTicks.map((each) => each.at),
      ticktext: shownTicks.map((each, i) => tickText(each, shownTicks[i - 1])), showgrid: false, tickangle: 0};
    return [traces, layout(c, 360, {
      xaxis: axis(c, "", {anchor: without.length ? "y2" : "y", ...nights}),
      yaxis: axis(c, unit, without.length ? {domain: [0.12, 1]} : {}),
      // Nights without a figure stand in a strip of their own above the dates, which says what they are.
      yaxis2: axis(c, "", {domain: without.length ? [0, 0.08] : [0, 0], range: [0, 1], fixedrange: true, showgrid: false,
        tickvals: without.length ? [0.5] : [], ticktext: ["no figure"]}), margin: {l: 8, r: 12, t: 28, b: 8, pad: 4},
      shapes: [...chart.changes.map((each) => upright(each.at, "dash")), ...chart.swaps.map((at) => upright(at, "dot"))],
      annotations: chart.changes.map((each) => ({x: each.at - 0.5, yref: "paper", y: 1, yanchor: "bottom", xanchor: "center",
        text: plain(each.text), showarrow: false, font: {color: c.text, size: 12}})),
      legend: {...layout(c).legend, y: -0.14, yanchor: "top"},
    })];
  }

  function distribution(chart, c) {
    const colour = {"Tonight": c.accent, "Before": c.before, "Left out": c.quiet};
    const traces = chart.groups.toReversed().map((group) => ({
      type: "box", name: group.name, x: group.values, orientation: "h", boxpoints: "all", jitter: 0.6, pointpos: 0,
      marker: {color: colour[group.name], size: 4, opacity: 0.55, symbol: group.name === "Left out" ? "circle-open" : "circle"},
      line: {color: colour[group.name], width: 1.5}, fillcolor: "rgba(0,0,0,0)", hoverinfo: "x",
    }));
    return [traces, layout(c, 70 + 100 * traces.length, {
      showlegend: false, xaxis: axis(c, chart.unit), yaxis: axis(c, "", {showgrid: false}),
    })];
  }

  function operators(chart, c) {
    const at = chart.names.map((_, i) => i), most = narrow() ? 18 : 32;
    const bars = (name, values, color) => ({
      type: "bar", orientation: "h", name, x: values, y: at, marker: {color}, hoverinfo: "text",
      hovertext: at.map((i) => plain(`${chart.names[i]}: ${digits(values[i])} ms ${name}`)), textposition: "none",
    });
    return [[bars("tonight", chart.now, c.accent), bars("before", chart.before, c.before)], layout(c, 80 + 30 * at.length, {
      barmode: "group", bargap: 0.3, xaxis: axis(c, "ms"), margin: {l: 8, r: 12, t: 28, b: 8, pad: 4},
      yaxis: axis(c, "", {tickvals: at, ticktext: chart.names.map((name) => plain(shorter(name, most))),
        autorange: "reversed", showgrid: false}),
    })];
  }

  function tuned(chart, c) {
    const at = chart.names.map((_, i) => i), most = narrow() ? 18 : 40;
    const least = Math.min(1, ...chart.low), greatest = Math.max(1, ...chart.high), pad = 0.06 * (greatest - least || 1);
    const trace = {
      type: "scatter", mode: "markers", x: chart.ratio, y: at, marker: {color: c.accent, size: 9}, hoverinfo: "text",
      hovertext: at.map((i) => plain(`${chart.names[i]}: ${chart.note[i]}`)),
      error_x: {type: "data", symmetric: false, color: c.accent, thickness: 2, width: 5,
        array: at.map((i) => chart.high[i] - chart.ratio[i]), arrayminus: at.map((i) => chart.ratio[i] - chart.low[i])},
    };
    return [[trace], layout(c, 80 + 32 * at.length, {
      showlegend: false, xaxis: axis(c, "tuned / default", {range: [least - pad, greatest + pad]}),
      yaxis: axis(c, "", {tickvals: at, ticktext: chart.names.map((name) => plain(shorter(name, most))),
        autorange: "reversed", showgrid: false, range: [at.length - 0.4, -0.6]}),
      shapes: [{type: "line", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1, line: {color: c.quiet, width: 1.5, dash: "dash"}}],
    })];
  }

  function states(chart, c) {
    const line = (name, values, color, yaxis, more) => ({
      type: "scatter", mode: "lines", name, x: chart.time, y: values, yaxis, connectgaps: true,
      line: {color, width: 1.75, shape: yaxis === "y" ? "linear" : "hv", ...more}, hovertemplate: `${name}: %{y}<extra></extra>`,
    });
    const all = [
      line("temperature", chart.temperature, c.text, "y"),
      line("CPU clock", chart.cpu, c.accent, "y2"),
      line("CPU limit", chart.limit, c.before, "y2", {dash: "dot"}),
      line("GPU clock", chart.gpu, c.accent, "y2", {dash: "dash"}),
    ].filter((trace) => trace.y.some((value) => value !== null));
    const both = new Set(all.map((trace) => trace.yaxis)).size > 1;
    return [all, layout(c, both ? 380 : 240, {
      showlegend: true, hovermode: "x unified", xaxis: axis(c, "", {type: "date", anchor: both ? "y2" : "y"}),
      yaxis: axis(c, "°C", {domain: both ? [0.56, 1] : [0, 1]}), yaxis2: axis(c, "MHz", {domain: both ? [0, 0.46] : [0, 1], rangemode: "tozero"}),
      margin: {l: 8, r: 12, t: 28, b: 8, pad: 4},
    })];
  }

  // An axis that does not begin at zero shows differences larger than they are: said below the chart.
  const LENGTHS = {history: ["yaxis"], distribution: ["xaxis"], operators: ["xaxis"], tuned: ["xaxis"], states: []};

  function tellAxes(box, kind, plot) {
    const cut = LENGTHS[kind].map((name) => plot.layout[name].range).filter((range) => range && Math.min(...range) > 0);
    box.querySelector(".axis-note").textContent = cut.length ? "The axis does not begin at zero. " : "";
  }

  const KINDS = {history, distribution, operators, tuned, states};
  const boxes = [...document.querySelectorAll(".chart")];
  const drawn = new Set();

  function draw(box, width) {
    const data = chartRows.whole(JSON.parse(document.getElementById(box.dataset.chart).textContent));
    const [traces, shape] = KINDS[data.kind](data, colours());
    const config = {displayModeBar: false, responsive: true, displaylogo: false, showTips: false};
    const plot = box.querySelector(".plot");
    Plotly.react(plot, traces, width ? {...shape, width, autosize: false} : shape, config);
    if (!drawn.has(box)) {
      box.querySelector(".chart-rows").append(Object.assign(document.createElement("span"), {className: "axis-note"}));
      chartRows.offer(box, data);
    }
    tellAxes(box, data.kind, plot);
    drawn.add(box);
    box.dataset.drawn = "yes";
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting && !drawn.has(entry.target)) {
        seen.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, {rootMargin: "300px"});
  boxes.forEach((box) => seen.observe(box));

  const redraw = () => drawn.forEach((box) => draw(box));
  document.addEventListener("themechange", redraw);

  // Paper is light, and as wide as it is; afterwards all is as it was.
  let theme = null;
  addEventListener("beforeprint", () => {
    theme = document.documentElement.getAttribute("data-theme");
    document.documentElement.setAttribute("data-theme", "light");
    boxes.forEach((box) => draw(box, Math.min(PAPER_PX, box.closest(".charts") ? PAPER_PX / 2 - 20 : PAPER_PX)));
  });
  addEventListener("afterprint", () => {
    if (theme === null) document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", theme);
    redraw();
  });
})();
