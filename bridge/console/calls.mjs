// What the console asks the API, and how often. The API lies beside the page, under a proxy's prefix too.
const api = new URL('../v1/', import.meta.url);

// The routes that the console asks; a test holds them against the operations.
export const routes = {
  me: 'GET /v1/me',
  overview: 'GET /v1/overview',
  forecast: 'GET /v1/forecast',
  held: 'GET /v1/held',
  resume: 'POST /v1/topics/{topic}/resume',
};

// Problem is an unsuccessful answer. Its status is 0 where there was none.
export class Problem extends Error {
  constructor(status, word, detail) {
    super(detail);
    Object.assign(this, { status, word });
  }
}

// The token stays in this tab and dies with it.
export const token = {
  get: () => sessionStorage.getItem('token'),
  set: (text) => (text ? sessionStorage.setItem('token', text) : sessionStorage.removeItem('token')),
};

// call asks an operation; a parameter of its path takes what values has of that name.
async function call(name, query, values = {}) {
  const [method, route] = routes[name].split(' ');
  const path = route.replace('/v1/', '').replace(/{(\w+)}/g, (_, key) => encodeURIComponent(values[key]));
  const at = new URL(path, api);
  at.search = new URLSearchParams(query);
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  let answer, text;
  try {
    answer = await fetch(at, { method, headers, cache: 'no-store', redirect: 'error',
      signal: AbortSignal.timeout(15_000) });
    text = await answer.text();
  } catch {
    throw new Problem(0, 'no_answer', 'No instance answers this page.');
  }
  let body = {};
  try { body = JSON.parse(text); } catch { /* a proxy says something of its own */ }
  if (answer.ok && body) return body;
  throw new Problem(answer.status, body?.error ?? 'unreadable',
    body?.detail ?? `The answer is ${answer.status}, and not tarry's.`);
}

// act changes something.
export const act = (name, values) => call(name, {}, values);

// Feed asks for the same again and again. It waits for an answer before it asks anew, and longer after each failure.
export class Feed {
  constructor(name, query, every) {
    Object.assign(this, { name, query, every, busy: false });
    this.renew();
  }

  // renew makes it ask at once. What it knows stays.
  renew() {
    Object.assign(this, { problem: null, failed: 0, asked: -Infinity });
  }

  // soon makes it ask at once, unless it is not answered.
  soon() {
    if (!this.failed) this.asked = -Infinity;
  }

  get due() {
    const wait = this.failed ? Math.min(1000 * 2 ** this.failed, 30_000) : this.every;
    return !this.busy && Date.now() - this.asked >= wait;
  }

  // ask keeps the data of the last good answer beside what went wrong since.
  async ask() {
    [this.began, this.busy] = [Date.now(), true];
    try {
      this.data = await call(this.name, this.query);
      [this.answered, this.problem, this.failed] = [Date.now(), null, 0];
    } catch (problem) {
      [this.problem, this.failed] = [problem, this.failed + 1];
    }
    [this.asked, this.busy] = [Date.now(), false];
  }
}
