// Messages: a list by topic, state, due time and key, or of what holds messages back; and what a search finds.
import { h } from './vendor/preact.mjs';
import { bulk } from './bulk.mjs';
import { Button, clock, D, Facts, Field, Ghost, H, M, Name, Notice, num, Rel, S, sum, When } from './parts.mjs';
import { Everywhere, Rows } from './s-message.mjs';

const filters = ['topic', 'state', 'due_from', 'due_to', 'key', 'held', 'name', 'cursor'], page = 50;
const most = (query) => Math.min(Math.max(parseInt(query.get('limit') ?? page, 10) || page, page), 1000);

function list(query) {
  const asked = Object.fromEntries(filters.map((name) => [name, query.get(name)]).filter(([, value]) => value));
  if (!asked.held) asked.state = stateOf(query);
  if (asked.state === all) delete asked.state;
  // Further pages stand still until somebody comes back to them.
  const still = asked.cursor || most(query) > 2 * page;
  return ['list', { ...asked, limit: most(query) }, still ? Infinity : asked.held ? 10 * S : 5 * S];
}
export const feeds = (query) => [list(query)];

// What lives comes first: the journal also has all that has ended.
const live = 'waiting,ready,in_flight', all = 'all';
const states = [live, 'waiting', 'ready', 'in_flight', 'dead', 'delivered', 'canceled', 'expired', all];
const stateOf = (query) => (states.includes(query.get('state')) ? query.get('state') : live);

export function Messages({ feed, query, go, who, ask }) {
  const f = feed(...list(query)), group = query.get('held'), shown = f.data?.messages;
  const submit = (e) => {
    e.preventDefault();
    const given = [...new FormData(e.target)].map(([name, text]) => [name, text.trim() || null]);
    go({ limit: null, cursor: null, ...Object.fromEntries(given) });
  };
  const text = (name, label, placeholder) => h(Field, { label }, h('input', { name, placeholder, autocomplete: 'off',
    spellcheck: false, defaultValue: query.get(name) ?? '', key: query.get(name) }));
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Messages'),
      group && h('p', { class: 'note' }, `held back: ${group.replaceAll('_', ' ')}, `,
        h(Name, null, query.get('name') ?? ''), ' ',
        h('button', { type: 'button', class: 'plain', onClick: () => go({ held: null, name: null }) }, 'all messages')),
      who?.operate && !group && h(Acts, { query, ask })),
    !group && h('form', { class: 'filters', onSubmit: submit },
      text('topic', 'Topic or pattern', 'any'),
      h(Field, { label: 'State' }, h('select', { name: 'state', key: stateOf(query) }, states.map((value) =>
        h('option', { value, selected: value === stateOf(query) },
          value === live ? 'live' : value.replace('_', ' '))))),
      text('due_from', 'Due from', 'any, or 1h'), text('due_to', 'Due to', 'any, or 1d'), text('key', 'Key', 'any'),
      h(Button, { type: 'submit' }, 'Show')),
    f.problem && h(Notice, null, f.problem.message),
    f.data?.order && h(Notice, { mark: 'gone' },
      'The journal is off: this is what the store holds, part by part, and only what has not ended or is dead.'),
    shown ? [shown.length ? h(Rows, { messages: shown, caption: 'messages by due time' })
      : h('p', { class: 'lede' }, more(f.data) ? 'No message matches among those that were looked at; there are more.'
        : 'No message matches.'), h(Further, { f, query, go })] : !f.problem && h(Ghost));
}

// A group has one page; any other list goes on where it has a cursor.
const more = ({ cursor, order, looked }) => cursor || !order && looked?.whole === false;

// Further leads to more of a full page, or on from a page of which few matched.
function Further({ f, query, go }) {
  const { messages: { length: n }, cursor } = f.data, limit = most(query);
  const full = n >= limit && limit < 1000 && !query.get('cursor');
  const on = () => go(full ? { limit: String(limit + 4 * page) } : { cursor });
  return h('p', { class: 'note more' },
    cursor && [h(Button, { onClick: on }, full ? 'More' : 'Look further'), ' '],
    query.get('cursor') && [h('button', { type: 'button', class: 'plain', onClick: () => go({ cursor: null }) },
      'from the start'), ' '],
    n > 0 && `${num(n)}${more(f.data) ? '; there are more' : ''}`,
    f.every === Infinity && [', read ', h(Rel, { time: new Date(f.answered + clock.ahead).toISOString() })]);
}

// Acts on all that the filter selects and that wait.
function Acts({ query, ask }) {
  const given = ['topic', 'key', 'due_from', 'due_to'].map((name) => [name, query.get(name)])
    .filter(([, value]) => value);
  if (!given.length || ![live, 'waiting', 'ready'].includes(stateOf(query))) return null;
  const typed = query.get('topic') || query.get('key') || 'all';
  // Bounds stand still from the count on, and what is pushed later is left alone.
  const bound = (name) => name.startsWith('due');
  const order = () => ({
    ...Object.fromEntries(given.map(([name, value]) => [name, bound(name) ? moment(value) : value])),
    accepted_to: new Date(clock.now()).toISOString() });
  const what = (words) => [h(Facts, { rows: given.map(([name, value]) =>
    [name.replace('_', ' '), bound(name) ? h(When, { time: moment(value) }) : h(Name, null, value)]) }),
  h('p', null, words, ' What is pushed from now on is left alone.')];
  return h('div', { class: 'acts' },
    h(Button, { onClick: () => bulk(ask, { title: 'Move all that match?', route: 'reschedule_many',
      order: { ...order(), shift: '0s' }, verb: 'Move', past: 'moved', typed, more: what('All that wait are moved.'),
      again: 'Look at the list before you repeat it: what was moved would be moved once more.',
      form: h(Field, { label: 'By how much: 10m, 2h, -30m' },
        h('input', { name: 'shift', required: true, autocomplete: 'off' })) }) },
    'Move all…'), ' ',
    h(Button, { kind: 'danger', onClick: () => bulk(ask, { title: 'Cancel all that match?', route: 'cancel_many',
      order: order(), verb: 'Cancel', past: 'canceled', typed, sure: true, kind: 'danger',
      more: what('All that wait are canceled.') }) }, 'Cancel all…'));
}

// moment returns a bound as a time: a length of time counts from now on.
function moment(text) {
  const units = { w: 7 * D, d: D, h: H, m: M, s: S, ms: 1 }, parts = [...text.matchAll(/([\d.]+)(ms|[wdhms])/g)];
  if (!parts.length || parts.map(([part]) => part).join('') !== text.replace(/^\+/, '')) return text;
  return new Date(clock.now() + sum(parts.map(([, n, unit]) => n * units[unit]))).toISOString();
}

// What a search finds is what has the text as its id, its key or its topic.
const finds = (query) => {
  const text = query.get('text') ?? '';
  const short = new TextEncoder().encode(text).length <= 128; // as ids and keys are
  const by = [...short ? ['id', 'key'] : [], .../^[^\s*>]+$/.test(text) || !short ? ['topic'] : []];
  return by.map((name) => ['why', { [name]: text }, Infinity]);
};
export const foundFeeds = finds;

export function Found({ feed, query }) {
  const all = finds(query).map((f) => feed(...f)), known = all.filter((f) => f.data).map((f) => f.data);
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Found for ', h(Name, null, query.get('text') ?? ''))),
    all.filter((f) => f.problem).map((f) => h(Notice, { key: Object.keys(f.query)[0] },
      `By ${Object.keys(f.query)[0]} nothing is known: ${f.problem.message}`)),
    all.every((f) => f.data || f.problem) ? h(Everywhere, { all: known }) : h(Ghost));
}
