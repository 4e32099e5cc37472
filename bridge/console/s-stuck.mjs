// Stuck: what holds messages back that are due, the most first, and what would free them.
import { h } from './vendor/preact.mjs';
import { act } from './calls.mjs';
import { Button, Ghost, link, list, Mark, Name, Notice, num, Rel, S, sum, Table } from './parts.mjs';

const held = ['held', {}, 5 * S];
export const feeds = () => [held];

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
};

// What stops all messages is no group, nor is what waits before it is a message.
const stops = (c) => c.level === 'stop' || c.word === 'intake_waits' || c.word === 'set_aside';

export function Stuck({ feed, who, ask }) {
  const f = feed(...held), all = feed('overview').data.conditions.filter(stops);
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'What is stuck')),
    all.map((c) => h(Notice, { mark: c.level === 'stop' ? 'dead' : 'late' }, h('bdi', null, c.detail),
      c.count > 0 && [': ', h('b', null, num(c.count))])),
    f.problem && h(Notice, null, f.problem.message),
    f.data ? h(Groups, { ...f.data, stopped: all.length > 0, may: who?.operate, ask }) : !f.problem && h(Ghost));
}

function Groups({ groups, more, stopped, may, ask }) {
  const n = sum(groups.map((g) => g.count));
  if (!n) return !stopped && h('p', { class: 'lede' }, 'Nothing that is due is held back.');
  return [
    h('p', { class: 'lede' },
      h('b', null, num(n)), n === 1 ? ' message is due and waits' : ' messages are due and wait',
      more ? ', and more: these groups hold the most.' : '.'),
    h(Table, { caption: 'what holds messages back',
      head: [['By'], ['Messages', 'n'], ['Why'], ['Oldest', 'n'], ['Since', 'n'], ['Next try', 'n'], ['Act', 'acts']],
      rows: groups.map((g) => ({ key: `${g.word} ${g.name}`, cells: cells(g, may && g.word === 'paused', ask) })) }),
  ];
}

function cells(g, may, ask) {
  const [mark, words] = reasons[g.word] ?? ['unsure', g.word];
  return [
    h(Name, null, g.name), list({ held: g.word, name: g.name }, h('b', null, num(g.count))),
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
