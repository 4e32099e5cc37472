// Charts are SVG, with a sentence for those who do not see them; the figures also stand in the tables of Falls due.
// Cool hues say what, warm hues say trouble.
import { h } from './vendor/preact.mjs';
import { at, D, M, num, S, span, sum } from './parts.mjs';

export const colours = ['c1', 'c2', 'c3', 'c4', 'c5', 'c6'].map((c) => `var(--${c})`);

// What holds overdue messages: how it is drawn, and what it is called.
export const holds = {
  none: ['lateF', 'late, held by nothing'],
  parked: ['lateF', 'held: not accepted'],
  paused: ['heldF', 'held: paused'],
  rate: ['heldF', 'held: rate'],
  pull: ['c6F', 'waits to be pulled'],
};

// nice is the next round number that has whole quarters or halves to draw lines at.
function nice(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((m) => m * power).find((m) => m >= n && Number.isInteger(m));
}

// scale ends an axis above what is usual: a single wave must not flatten the rest. A torn bar says its own number.
function scale(values) {
  const up = values.filter((v) => v > 0).sort((a, b) => a - b), max = up.at(-1) ?? 1;
  const usual = up[Math.floor(up.length * .95) - 1] ?? up[0] ?? 1;
  return nice(max > 2.2 * usual ? usual * 1.5 : max);
}

function torn(x, width, y) {
  const v = Math.max(width, 7) / 3 + .7;
  return h('path', { class: 'torn', d: `M${x + width / 2 - v * 1.5} ${y + 3}l${v} -4 ${v} 4 ${v} -4` });
}

// stack draws counts on top of each other, and returns how high they reach. What is torn at most keeps its proportions.
function stack(parts, x, width, y, most = Infinity) {
  const all = sum(parts.map(([n]) => n ?? 0)), fit = Math.min(1.05 * most / all, 1);
  let low = 0;
  const drawn = parts.map(([n, look]) => {
    if (!n) return null;
    low += n * fit;
    return h('rect', { x, y: y(low), width, height: y(low - n * fit) - y(low), ...look });
  });
  return [drawn, all];
}

// worstOf returns where a rate makes messages latest, or undefined.
export const worstOf = (data) => data.steps.flatMap((s, i) => (s.behind ?? []).map((b) => ({ ...b, i, from: s.from })))
  .sort((a, b) => b.late_ms - a.late_ms).find((b) => b.late_ms >= 1000);

// Bars draws what falls due by step, stacked by topic, and left of now what is overdue and, if that is given, what left
// before. A bar opens its step.
export function Bars({ data, before, step, width, height, chosen, pick }) {
  const small = width < 560, left = 44, top = 28, base = height - 28, over = small ? 22 : 40;
  const past = before ? before.delivered : [], n = data.steps.length;
  const bar = (width - left - over - 10) / (n + past.length);
  const hold = left + past.length * bar, start = hold + over, x = (i) => start + i * bar;
  const totals = data.steps.map((s) => s.count), most = scale([...past, ...totals]);
  const full = Math.max(bar - 1.2, bar * .8); // with its gap to the next
  const y = (v) => base - (base - top) * Math.min(v / most, 1.05);

  const lines = (most % 4 ? [.5, 1] : [.25, .5, .75, 1]).map((part) => most * part).filter(Number.isInteger);
  const grid = lines.map((v) => [h('line', { x1: left, x2: width, y1: y(v), y2: y(v), class: 'grid' }),
    h('text', { x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, num(v))]);

  const held = Object.entries(data.held ?? {}).map(([word, count]) => [count, { class: holds[word]?.[0] ?? 'c6F' }]);
  const [overdue, late] = stack(held, hold + 6, over - 16, y, most);
  const lateText = late > 0 && !small && h('text',
    { x: hold + 6 + (over - 16) / 2, y: y(late) - 5, class: 'hint', 'text-anchor': 'middle' }, num(late));

  const gone = past.map((v, i) => [
    stack([[v - before.late[i], { class: 'doneF' }], [before.late[i], { class: 'lateF' }]], left + i * bar,
      full, y, most)[0], v > most && torn(left + i * bar, full, top)]);

  const bars = data.steps.map((s, i) => {
    const parts = [...(s.groups ?? []).map((v, g) => [v, { fill: colours[g] }]), [s.others, { fill: 'var(--c6)' }]];
    return h('g', pick && button(i), h('rect', { x: x(i), y: top, width: bar, height: base - top, class: 'hit' }),
      stack(parts, x(i), full, y, most)[0]);
  });
  function button(i) {
    const press = (e) => {
      const to = { Enter: i, ' ': i, ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: n - 1 }[e.key];
      if (to === undefined) return;
      e.preventDefault();
      if (to >= 0 && to < n) pick(to, true);
    };
    return { class: `step${chosen === i ? ' chosen' : ''}`, role: 'button', 'data-step': i,
      tabindex: i === (chosen ?? 0) ? 0 : -1, 'aria-pressed': String(chosen === i),
      'aria-label': `${at(data.steps[i].from)}: ${num(totals[i])} fall due`, onClick: () => pick(i), onKeyDown: press };
  }

  let beside = -1, row = 0; // the number of a torn bar gives way to the one before
  const waves = totals.map((v, i) => {
    if (v <= most) return null;
    const end = i > n * .8, text = x(i) + (end ? -4 : bar + 5);
    row = beside >= 0 && text - beside < 48 ? row + 1 : 0;
    beside = text;
    return [torn(x(i), full, top), h('text', { x: text, y: top + 6 + 14 * row, class: 'hint strong',
      'text-anchor': end ? 'end' : 'start' }, num(v))];
  });

  const worst = worstOf(data), from = Date.parse(data.steps[0].from);
  const ticks = before ? (small ? 1 : 4) : small ? 3 : 8;
  const ago = past.length > 0 && (small ? [0] : [0, .25, .5, .75]).map((part) => h('text', {
    x: left + part * (hold - left), y: height - 8, 'text-anchor': part ? 'middle' : 'start' },
    at(Date.parse(before.from) + part * past.length * step)));
  const axis = Array.from({ length: ticks + 1 }, (_, k) => {
    const i = Math.round(k * n / ticks), days = step * n > 2 * D, text = at(from + i * step, { date: days });
    return h('text', { x: x(i), y: height - 8, class: k ? '' : 'nowtext', 'text-anchor': ['start', 'middle', 'end'][
      k === ticks ? 2 : Math.sign(k)] }, k ? (days ? text.slice(0, 5) : text) : 'now');
  });
  return h('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: pick ? 'group' : 'img',
    'aria-label': `${before ? `${sum(past)} messages left in the last hour, ${sum(before.late)} of them late. ` : ''}${
      sum(totals)} messages fall due within ${span(step * n)}; ${data.overdue ?? 0} are overdue.` },
    grid, gone, overdue, late > most && torn(hold + 6, over - 16, top), lateText, bars, waves, ago,
    worst && h('path', { d: `M${x(worst.i)} ${base + 3}h${bar}`, class: 'behind' }),
    h('line', { x1: left, x2: width, y1: base, y2: base, class: 'base' }),
    h('line', { x1: start - 3, x2: start - 3, y1: 6, y2: base + 6, class: 'now' }), axis);
}

// Spark draws counts along a row, without an axis.
export function Spark({ values, width, height = 22, colour, label }) {
  const most = Math.max(...values, 1), bar = width / values.length, y = (v) => height - 1 - (height - 2) * v / most;
  return h('svg', { class: 'spark', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img',
    'aria-label': label },
    h('line', { x1: 0, x2: width, y1: height - .5, y2: height - .5, class: 'grid' }),
    values.map((v, i) => stack([[v, { fill: colour }]], i * bar, Math.max(bar - 1, 1), y)[0]));
}

// Lateness draws within how long after they were due half and 99 of 100 messages left, minute by minute, on a
// logarithmic axis from 1 ms to 1 min.
export function Lateness({ data, width, height = 150 }) {
  const left = 44, base = height - 24, n = data.p50_ms.length, x = (i) => left + (width - left - 8) * i / (n - 1);
  const y = (ms) => base - (base - 10) * Math.log10(Math.min(Math.max(ms, 1), M)) / Math.log10(M);
  // A minute in which nothing left ends a line, and a minute alone is a dot.
  const line = (values) => values.map((ms, i) => (data.delivered[i] && ms
    ? `${data.delivered[i - 1] && values[i - 1] ? 'L' : 'M'}${x(i).toFixed(1)} ${y(ms).toFixed(1)}h.01` : '')).join('');
  return h('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label':
    `Within how long after they were due messages left, by minute; in the worst one 99 of 100 within ${
      span(Math.max(...data.p99_ms))}.` },
    [1, 10, 100, S, 10 * S].map((ms) => [h('line', { x1: left, x2: width, y1: y(ms), y2: y(ms), class: 'grid' }),
      h('text', { x: left - 6, y: y(ms) + 4, 'text-anchor': 'end' }, span(ms))]),
    data.late.map((v, i) => v > 0 && h('path', { class: 'behind',
      d: `M${x(i)} ${y(data.p99_ms[i])}V${y(data.p50_ms[i])}` })),
    h('path', { class: 'p99', d: line(data.p99_ms) }), h('path', { class: 'p50', d: line(data.p50_ms) }),
    [0, n / 2, n - 1].map((i, k) => h('text', { x: x(i), y: height - 6, 'text-anchor': ['start', 'middle', 'end'][k] },
      at(Date.parse(data.from) + i * data.step_ms))));
}
