// What all flows share: a person in front of a real browser, who knows of a page only what can be seen there.
//
// A flow is a module that calls `flow` once. It is started by `ipse_testkit::Flow`, with one line of JSON on its input that
// says what to do, and answers with lines of JSON: `step`, `ask` (which is answered with a line), `told`, `failed`.
//
//     import { flow } from './lib.mjs';
//
//     await flow(async ({ person, given, step, ask, tell }) => {
//       step('sign up');
//       await person.open('/signup');
//       await person.fill('E-mail', given.email);
//       await person.press('Sign up');
//       await person.expectText('Your first key');
//     });
//
// Whatever the browser complains about fails the flow: errors in the console, what the content security policy forbids,
// scripts that throw, requests that fail, and every request to another host.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const modules = createRequire(join(needed('XTASK_NODE_MODULES'), 'from-here.js'));
const { chromium, errors } = modules('playwright-core');

/** How long one thing may take that a person waits for. */
const PATIENCE_MS = 15_000;
/** Axe's rules that are off by default but which we keep. */
const MORE_RULES = { 'target-size': { enabled: true } };

/**
 * Runs `work` and ends the process. It gets:
 * - `person`: a Person with the options of the test;
 * - `another(options)`: one more, with a browser profile of their own;
 * - `given`: the parameters of the test;
 * - `step(text)`: says what comes next, for whoever reads a failure;
 * - `ask(question, about)`: asks the test and resolves to its answer;
 * - `tell(value)`: hands a result to the test.
 */
export async function flow(work) {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const task = JSON.parse((await lines.next()).value);
  const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
  const people = [];
  let browser;
  let last = 'start the browser';
  const fail = async (reason) => {
    const seen = await Promise.all(people.map((person, index) => person.describe(task.pictures, `${task.name}-${index + 1}`)));
    say({ failed: [`at the step “${last}”: ${reason}`, ...seen].join('\n') });
    // Whoever reads the other end must have the line before the process ends.
    await new Promise((resolve) => process.stdout.write('', resolve));
    process.exit(1);
  };
  setTimeout(() => fail(`nothing more happened, and ${task.seconds} s were over`), task.seconds * 1000).unref();
  try {
    browser = await chromium.launch({
      executablePath: needed('XTASK_CHROMIUM'),
      args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    });
    const another = async (options = {}) => {
      const person = new Person(task.base, { ...task.options, ...options });
      await person.sitDown(browser);
      people.push(person);
      return person;
    };
    await work({
      person: await another(),
      another,
      given: task.given,
      step: (text) => {
        last = text;
        say({ step: text });
      },
      ask: async (question, about = null) => {
        say({ ask: question, about });
        const { value } = await lines.next();
        return JSON.parse(value);
      },
      tell: (value) => say({ told: value }),
    });
    last = `after ${last}`;
    for (const person of people) person.expectNoComplaint();
    await browser.close();
  } catch (error) {
    await fail(error instanceof Failure || error instanceof errors.TimeoutError ? error.message : error.stack);
  }
  process.exit(0);
}

/** A reason in a sentence, which needs no stack. */
export class Failure extends Error {}

/** One browser profile with one page. */
export class Person {
  #base;
  #options;
  #complaints = [];
  #requests = new Map();
  #documents = new Set();
  #status;

  constructor(base, options) {
    this.#base = new URL(base);
    this.#options = options;
  }

  async sitDown(browser) {
    const { javascript, dark, width, height, ignoreHttpsErrors } = this.#options;
    this.context = await browser.newContext({
      javaScriptEnabled: javascript,
      colorScheme: dark ? 'dark' : 'light',
      reducedMotion: 'reduce',
      viewport: { width, height },
      ignoreHTTPSErrors: ignoreHttpsErrors,
      locale: 'en-GB',
    });
    this.context.setDefaultTimeout(PATIENCE_MS);
    if (javascript) {
      await this.context.grantPermissions(['clipboard-read', 'clipboard-write']);
      await this.context.addInitScript(watchShifts);
    }
    this.page = await this.context.newPage();
    await this.#listen();
  }

  /** Opens a page by its path, and resolves to the status it came with. */
  async open(path) {
    const response = await this.page.goto(new URL(path, this.#base).href, { waitUntil: 'load' });
    return response.status();
  }

  /** The status that the open page came with, however one got there. */
  get status() {
    return this.#status;
  }

  /** The path and query of the page that is open. */
  path() {
    const { pathname, search } = new URL(this.page.url());
    return pathname + search;
  }

  /** Types into a field, which is found by its label; where several have it, in the part of the page with this heading. */
  async fill(label, text, part) {
    await this.#part(part).getByLabel(label, { exact: true }).fill(text);
  }

  /** What stands in a field. */
  async valueOf(label) {
    return this.page.getByLabel(label, { exact: true }).inputValue();
  }

  /** Chooses from a list, or among radio buttons or boxes, by the labels. */
  async choose(label, option) {
    const field = this.page.getByLabel(label, { exact: true });
    if (option === undefined) await field.check();
    else await field.selectOption({ label: option });
  }

  /** Chooses one of the radio buttons of a group, by the word that its label begins with. */
  async pick(group, word) {
    await this.page.getByRole('group', { name: group, exact: true }).getByRole('radio', { name: new RegExp(`^${word}\\b`) }).check();
  }

  /** Presses a button, which is found by its name, perhaps within the part of the page with this heading. */
  async press(name, part) {
    await this.#part(part).getByRole('button', { name, exact: true }).click();
  }

  /** What a block of code says, which is found by what it is called for those who only hear it. */
  async codeOf(name) {
    return (await this.page.getByRole('group', { name, exact: true }).innerText()).trim();
  }

  /** The same, by way of the button beside it and the clipboard, for whoever has scripts; others mark it with the mouse. */
  async copy(name) {
    if (!this.#options.javascript) return this.codeOf(name);
    const button = this.page.getByRole('button', { name: `Copy: ${name}`, exact: true });
    await button.click();
    await button.filter({ hasText: 'Copied' }).waitFor();
    return this.page.evaluate(() => navigator.clipboard.readText());
  }

  /** Follows a link that leads to a file, and resolves to the name and the text of it. */
  async download(name) {
    const [download] = await Promise.all([this.page.waitForEvent('download'), this.follow(name)]);
    return { name: download.suggestedFilename(), text: readFileSync(await download.path(), 'utf8') };
  }

  /** Whether the browser runs the scripts of pages. */
  get runsScripts() {
    return this.#options.javascript;
  }

  /** Follows a link, which is found by its name. */
  async follow(name) {
    await this.page.getByRole('link', { name, exact: true }).first().click();
  }

  /** Waits until a text can be seen. */
  async expectText(text) {
    try {
      await this.page.getByText(text).filter({ visible: true }).first().waitFor();
    } catch {
      throw new Failure(`“${text}” is not to be seen`);
    }
  }

  /** A text must not be there. Wait for something else first: what is still on its way cannot be seen either. */
  async expectNoText(text) {
    if (await this.page.getByText(text).filter({ visible: true }).count()) throw new Failure(`“${text}” is to be seen`);
  }

  /** Waits until the open page has this path. */
  async expectPath(path) {
    try {
      await this.page.waitForURL((url) => url.pathname === path);
    } catch {
      throw new Failure(`the page is ${this.path()} and not ${path}`);
    }
  }

  /** Fails with all that axe finds wrong with the page. It is itself a script, so it needs a browser that runs them. */
  async expectAccessible() {
    const violations = await this.axe();
    if (violations.length > 0) throw new Failure(`axe finds:\n${violations.join('\n')}`);
  }

  /** What axe finds wrong, a line for each. Its rules about colours are all that another theme can break. */
  async axe({ coloursOnly = false } = {}) {
    // Evaluated by the browser's debugger, which the page's content security policy does not bind.
    if (!(await this.page.evaluate(() => 'axe' in window))) await this.page.evaluate(axeSource());
    const options = { resultTypes: ['violations'], ...(coloursOnly ? { runOnly: ['cat.color'] } : { rules: MORE_RULES }) };
    return this.page.evaluate(async (options) => {
      const { violations } = await window.axe.run(document, options);
      return violations.flatMap(({ id, help, nodes }) =>
        nodes.map(({ target, failureSummary }) => `${id}: ${help}: ${target.join(' ')}: ${failureSummary.replaceAll('\n', ' ')}`),
      );
    }, options);
  }

  /** All that the browser complained about since this was called last. What is taken no longer fails the flow. */
  takeComplaints() {
    return this.#complaints.splice(0);
  }

  /** Fails if the browser has complained. */
  expectNoComplaint() {
    if (this.#complaints.length > 0) throw new Failure('the browser complains');
  }

  /** Forgets what was requested until now. */
  forgetRequests() {
    this.#requests.clear();
  }

  /**
   * Waits until no request is under way and the page was drawn since; then tells all of them: URL, status, bytes as they
   * came. Only a browser that runs scripts can say when it has drawn.
   */
  async settled() {
    const ended = () => [...this.#requests.values()].every(({ bytes }) => bytes !== undefined);
    for (let quiet = false; ; quiet = ended()) {
      await this.drawn();
      if (quiet && ended()) return [...this.#requests.values()];
    }
  }

  /** Waits until whatever was changed is drawn. */
  async drawn() {
    await this.page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  }

  /** For whoever has to find out what went wrong. */
  async describe(folder, name) {
    const lines = [`the page: ${this.path()}`, ...this.#complaints.map((complaint) => `the browser: ${complaint}`)];
    try {
      mkdirSync(folder, { recursive: true });
      const picture = join(folder, `${name}.png`);
      await this.page.screenshot({ path: picture, fullPage: true, timeout: 5_000 });
      lines.push(`a picture: ${picture}`);
      lines.push(`what can be read: ${(await this.page.locator('main').innerText({ timeout: 1_000 })).slice(0, 2_000)}`);
    } catch (error) {
      lines.push(`there is no more to show: ${error.message.split('\n')[0]}`);
    }
    return lines.join('\n');
  }

  async #listen() {
    const wire = await this.context.newCDPSession(this.page);
    await wire.send('Network.enable');
    // Everybody's first visit counts, not the second.
    await wire.send('Network.setCacheDisabled', { cacheDisabled: true });
    wire.on('Network.requestWillBeSent', ({ requestId, request, redirectResponse }) => {
      if (/^(data|blob|about):/.test(request.url)) return;
      // Of a redirect the browser tells no more than this.
      const bytes = redirectResponse?.encodedDataLength;
      if (bytes !== undefined) this.#requests.set(`${requestId} redirected ${this.#requests.size}`, { ...this.#requests.get(requestId), bytes });
      this.#requests.set(requestId, { url: request.url });
      this.#judge(request.url);
    });
    wire.on('Network.responseReceived', ({ requestId, response }) => this.#note(requestId, { status: response.status }));
    wire.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => this.#note(requestId, { bytes: encodedDataLength }));
    wire.on('Network.loadingFailed', ({ requestId, errorText, canceled, blockedReason }) => {
      const { url } = this.#requests.get(requestId) ?? {};
      this.#note(requestId, { bytes: 0 });
      // A page that is left, or a download, ends requests without a fault of anybody.
      if (url && !canceled && errorText !== 'net::ERR_ABORTED') this.#complaints.push(`${url} failed: ${errorText} ${blockedReason ?? ''}`.trim());
    });
    this.page.on('request', (request) => {
      if (request.isNavigationRequest()) this.#documents.add(request.url());
    });
    this.page.on('response', (response) => {
      if (response.request().isNavigationRequest()) this.#status = response.status();
    });
    this.page.on('console', (message) => {
      // That a document came with a status such as 422 is what the flow itself looks at.
      const isDocument = message.text().startsWith('Failed to load resource') && this.#documents.has(message.location().url);
      if (['error', 'warning'].includes(message.type()) && !isDocument) this.#complaints.push(`${message.type()}: ${message.text()} (${message.location().url})`);
    });
    this.page.on('pageerror', (error) => this.#complaints.push(`a script threw: ${error.message}`));
  }

  #part(heading) {
    return heading === undefined ? this.page : this.page.getByRole('region', { name: heading, exact: true });
  }

  #note(requestId, fact) {
    const request = this.#requests.get(requestId);
    if (request) Object.assign(request, fact);
  }

  #judge(url) {
    const { host } = new URL(url);
    if (host !== this.#base.host && !this.#options.otherHosts.includes(host)) this.#complaints.push(`a request to another host: ${host}`);
  }
}

let axe;
function axeSource() {
  axe ??= readFileSync(modules.resolve('axe-core/axe.min.js'), 'utf8');
  return axe;
}

/** Gives a page a function that tells what jumped since it began to load, and how far. */
function watchShifts() {
  const shifts = [];
  const note = (entries) => {
    for (const { value, hadRecentInput, sources } of entries) {
      if (hadRecentInput) continue;
      shifts.push({ by: value, what: sources.map(({ node }) => node?.outerHTML?.slice(0, 120) ?? String(node?.nodeName)) });
    }
  };
  const observer = new PerformanceObserver((list) => note(list.getEntries()));
  observer.observe({ type: 'layout-shift', buffered: true });
  window.shifts = () => {
    note(observer.takeRecords());
    return shifts;
  };
}

function needed(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: start the tests with \`cargo xtask test\`, or see \`cargo xtask tools\``);
  return value;
}
