// Pull and webhooks: the topics that consumers pull, who holds what until when, and the targets of webhooks.
import { h } from './vendor/preact.mjs';
import { act } from './calls.mjs';
import { Button, Ghost, link, Mark, Name, Notice, num, Rel, Ruler, S, Section, Table, to, When } from './parts.mjs';

const topics = ['topics', { limit: 1000 }, 5 * S], held = ['held', {}, 5 * S];
const leases = (topic) => ['leases', { limit: 100 }, 5 * S, { topic }];
const pulled = (all) => all.filter((t) => t.ready || t.leased || t.settings?.deliver === 'pull');
const chosen = (query, all = []) => query.get('topic') ?? pulled(all).find((t) => t.leased)?.topic;
export const feeds = (query, feed) => {
  const topic = chosen(query, feed(...topics).data?.topics);
  return [topics, held, ...topic ? [leases(topic)] : []];
};

export function Pull({ feed, query, go, who, ask }) {
  const f = feed(...topics), all = f.data, topic = chosen(query, all?.topics);
  return h('div', null,
    h('div', { class: 'head' }, h('h1', null, 'Pull and webhooks')),
    f.problem && h(Notice, null, f.problem.message),
    all ? [h(Topics, { rows: pulled(all.topics), more: all.cursor, held: feed(...held).data?.groups ?? [], topic, go }),
      topic && h(Leases, { f: feed(...leases(topic)), topic, may: who?.operate, ask }),
      all.webhooks?.length > 0 && h(Webhooks, all)] : !f.problem && h(Ghost));
}

function Topics({ rows, more, held, topic, go }) {
  if (!rows.length) return h('p', { class: 'lede' }, 'Nothing waits to be pulled, and nobody holds anything.');
  const oldest = (t) => held.find((g) => g.word === 'unpulled' && g.name === t.topic)?.oldest;
  return h(Section, { title: 'Topics that consumers pull', note: more && 'of the first 1 000 by name' },
    h(Table, { caption: 'topics that consumers pull',
      head: [['Topic'], ['Ready', 'n'], ['Oldest', 'n'], ['Leased', 'n'], ['Dead', 'n']],
      rows: rows.map((t) => ({ key: t.topic, cells: [
        h('button', { type: 'button', class: 'plain', 'aria-pressed': String(t.topic === topic),
          onClick: () => go({ topic: t.topic }) }, h(Name, null, t.topic)),
        num(t.ready), oldest(t) ? h(Rel, { time: oldest(t), how: 'late' }) : '–', num(t.leased),
        t.dead ? num(t.dead) : '–'] })) }));
}

const Leases = ({ f, topic, may, ask }) => h(Section, { title: ['Leases of ', h(Name, null, topic)],
  note: 'the soonest end first' },
f.problem && h(Notice, null, f.problem.message),
f.data?.messages.length ? h(Table, { caption: 'leases',
  head: [['Ends'], ['How soon', 'wide'], ['Message'], ['Consumer'], ['Since', 'n'], ['Try', 'n'], ['Act', 'acts']],
  rows: f.data.messages.map((m) => ({ key: m.uid, cells: [h(When, { time: m.lease_until }),
    h(Ruler, { time: m.lease_until, mark: 'flight' }), link(to(m.uid), h(Name, null, m.id)),
    m.consumer ? h(Name, null, m.consumer) : '–', h(Rel, { time: m.leased_at }), num(m.attempt),
    may ? h(Button, { onClick: () => ask(free(m)) }, 'Free…') : '–'] })) })
  : f.data && h('p', { class: 'lede' }, 'Nobody holds any of them.'));

const free = (m) => ({ title: ['Free ', h(Name, null, m.id), '?'], button: 'Free it',
  body: [m.consumer ? h(Name, null, m.consumer) : 'Its consumer',
    ' loses its lease, and the message is ready at once.'],
  go: async () => {
    await act('release', { id: m.uid });
    return 'It is ready for another consumer.';
  } });

const Webhooks = ({ webhooks }) => h(Section, { title: 'Webhooks', note: 'as this instance has seen them' },
  h(Table, { caption: 'targets of webhooks', head: [['Pattern'], ['Target'], ['Last asked', 'n'], ['Outcome'],
    ['Fails since', 'n']],
  rows: webhooks.map((w) => ({ key: w.pattern, cells: [h(Name, null, w.pattern), h(Name, null, w.target),
    w.at ? h(Rel, { time: w.at }) : '–',
    w.outcome ? [h(Mark, { is: w.failing_since ? 'late' : 'done' }), w.outcome.replaceAll('_', ' ')] : 'not asked yet',
    w.failing_since ? h(Rel, { time: w.failing_since, how: 'for' }) : '–'] })) }));
