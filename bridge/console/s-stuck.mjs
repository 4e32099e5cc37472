// Stuck: what holds messages back that are due, the most first, and what would free them; and those, the oldest first.
import { h } from './vendor/preact.mjs';
import { act } from './calls.mjs';
import { Button, Ghost, link, list, Mark, Name, Notice, num, Rel, S, Section, sum, Table } from './parts.mjs';
import { Rows } from './s-message.mjs';

const held = ['held', {}, 5 * S];
const oldest = (query) => (query.has('held')
  ? ['list', { held: query.get('held'), name: query.get('name') ?? '', limit: 20 }, 10 * S]
  : ['list', { state: 'waiting,ready', due_to: '0s', limit: 20 }, 5 * S]);
// While nothing is held back, what is due leaves, and by the journal may have left.
const some = (query, feed) => query.has('held') || feed(...held).data?.groups.length > 0;
export const feeds = (query, feed) => (some(query, feed) ? [held, oldest(query)] : [held]);

// Why messages wait, in words; the server's detail says more.
export const reasons = {
  paused: ['held', 'paused'],
  rate: ['held', 'above the rate'],
  catch_up: ['held', 'above the catch-up rate'],
  no_listener: ['late', 'nobody listens'],
  stream: ['late', 'the stream takes nothing'],
  turn: ['flight', 'on its way'],
  unpulled: ['waiting', 'not pulled yet'],
  webhook: ['waiting', 'posted next'],
  in_intake: ['late', 'not accepted'],
  set_aside: ['unsure', 'set aside'],
};
const pushes = ['in_intake', 'set_aside']; // are no messages yet
const unlisted = [...pushes, 'turn'];

export function Stuck({ feed, query, go, who, ask }) {
  const f = feed(...held), all = feed('overview').data.conditions.filter((c) => c.level === 'stop');
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'What is stuck')),
    all.map((c) => h(Notice, { mark: 'dead' }, h('bdi', null, c.detail),
      c.count > 0 && [': ', h('b', null, num(c.count))])),
    f.problem && h(Notice, null, f.problem.message),
    f.data ? [h(Groups, { ...f.data, stopped: all.length > 0, query, go, may: who?.operate, ask }),
      some(query, feed) && h(Oldest, { f: feed(...oldest(query)), query, go })] : !f.problem && h(Ghost));
}

function Groups({ groups, more, stopped, query, go, may, ask }) {
  if (!groups.length) return !stopped && h('p', { class: 'lede' }, 'Nothing that is due is held back.');
  const n = sum(groups.map((g) => (pushes.includes(g.word) ? 0 : g.count)));
  return [
    n > 0 && h('p', { class: 'lede' },
      h('b', null, num(n)), n === 1 ? ' message is due and waits' : ' messages are due and wait',
      more ? ', and more: these groups hold the most.' : '.'),
    h(Table, { caption: 'what holds messages back',
      head: [['By'], ['Messages', 'n'], ['Why'], ['Oldest', 'n'], ['Since', 'n'], ['Next try', 'n'], ['Act', 'acts']],
      rows: groups.map((g) => ({ key: `${g.word} ${g.name}`,
        cells: cells(g, query, go, may && g.word === 'paused', ask) })) }),
  ];
}

// Oldest are the messages of all groups, or of one that somebody has picked.
function Oldest({ f, query, go }) {
  const one = query.has('held'), messages = f.data?.messages ?? [];
  return h(Section, { title: 'The oldest', note: one && [query.get('held').replaceAll('_', ' '), ', ',
    h(Name, null, query.get('name')), ' ', h('button', { type: 'button', class: 'plain',
      onClick: () => go({ held: null, name: null }) }, 'all')] },
  f.problem && h(Notice, null, f.problem.message),
  messages.length ? h(Rows, { caption: 'messages that are due, the oldest first', messages })
    : f.data && h('p', { class: 'lede' }, 'None by now.'));
}

function cells(g, query, go, may, ask) {
  const [mark, words] = reasons[g.word] ?? ['unsure', g.word];
  const picked = query.get('held') === g.word && query.get('name') === g.name;
  const pick = () => go(picked ? { held: null, name: null } : { held: g.word, name: g.name });
  return [
    unlisted.includes(g.word) ? h(Name, null, g.name) : h('button', { type: 'button', class: 'plain',
      'aria-pressed': String(picked), onClick: pick }, h(Name, null, g.name)),
    unlisted.includes(g.word) ? num(g.count) : list({ held: g.word, name: g.name }, h('b', null, num(g.count))),
    [h(Mark, { is: mark }), g.word === 'paused' ? [words, g.by && [' by ', h(Name, null, g.by)]]
      : g.detail?.startsWith(words) ? h('bdi', null, g.detail)
        : [words, h('span', { class: 'detail' }, ': ', h('bdi', null, g.detail))]],
    g.oldest ? h(Rel, { time: g.oldest, how: 'late' }) : '–',
    g.since ? h(Rel, { time: g.since }) : '–',
    g.next ? h(Rel, { time: g.next, how: 'next' }) : '–',
    may ? h(Button, { onClick: () => ask(resume(g)) }, 'Resume…')
      : g.word === 'unpulled' ? link(`pull?${new URLSearchParams({ topic: g.name })}`, 'who pulls it') : '–',
  ];
}

// resume asks before it lets messages go, how many if that is known.
export const resume = ({ name, count }) => ({
  title: ['Resume ', h(Name, null, name), '?'],
  body: [count === undefined ? 'What is due leaves' : count === 1 ? '1 message is due, and leaves'
    : [h('b', null, num(count)), ' messages are due, and leave'], ' at once, unless something else holds it back too.'],
  button: count === undefined ? 'Resume' : `Resume ${num(count)}`,
  go: async () => {
    const { in_effect } = await act('resume', { topic: name });
    return `It is no longer paused${in_effect ? '.' : '; the leader has not said yet that it knows.'}`;
  },
});
