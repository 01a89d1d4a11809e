// Visits every page in both themes and several widths, and tells what is to be said about each visit. It judges nothing:
// that is up to the tests.

import { Failure, flow } from './lib.mjs';
import { pages, sessions } from './pages.mjs';

/** How often a page is loaded, and how it is looked at then: only a window of another width is one that things can jump in. */
const LOADS = [
  { width: 320, views: [{ width: 320, dark: false }, { width: 320, dark: true }] },
  { width: 1280, views: [{ width: 1280, dark: false }, { width: 1280, dark: true }, { width: 2560, dark: false }] },
];
const HEIGHT = 900;
/** No page has more to tab through than this. */
const MOST_TABS = 1_000;

await flow(async ({ person: visitor, another, given, step, ask, tell }) => {
  const wanted = given.pages ?? pages;
  // Two at once: a computer with two cores is done in half the time.
  const names = [...new Set(wanted.map(({ session }) => session))];
  await Promise.all([
    visitAll(visitor, wanted.filter(({ session }) => session === undefined)),
    (async () => {
      for (const name of names.filter((name) => name !== undefined)) {
        step(`begin the session of ${name}`);
        const person = await another();
        await sessions[name](person, given);
        await visitAll(person, wanted.filter(({ session }) => session === name));
      }
    })(),
  ]);

  async function visitAll(person, pages) {
    for (const page of pages) {
      step(page.name);
      try {
        await visit(person, page);
      } catch (error) {
        throw new Failure(`${page.name}: ${error.message}`);
      }
    }
  }

  async function visit(person, page) {
    let loaded;
    for (const [index, { width, views }] of LOADS.entries()) {
      if (!page.arrive || index === 0) {
        await look(person, { width, dark: false });
        loaded = await load(person, page, given, ask);
      }
      for (const view of views) {
        await look(person, view);
        await person.drawn();
        tell({
          visit: `${page.name}, ${view.width} px, ${view.dark ? 'dark' : 'light'}`,
          ...loaded,
          expected_status: page.status ?? 200,
          title: await person.page.title(),
          sideways: await person.page.evaluate(sideways),
          violations: view.width <= 1280 ? await person.axe({ coloursOnly: view.dark }) : [],
          keyboard: view.width === 1280 ? await (view.dark ? focusAgain : tabThrough)(person.page) : { stops: 0, unreached: [], unseen: [] },
          complaints: [...loaded.complaints, ...person.takeComplaints()],
        });
      }
    }
  }
});

async function look(person, { width, dark }) {
  await person.page.setViewportSize({ width, height: HEIGHT });
  await person.page.emulateMedia({ colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce' });
}

/** Opens a page, and tells what came and how it moved meanwhile. */
async function load(person, page, given, ask) {
  await page.before?.(person, given, ask);
  person.forgetRequests();
  person.takeComplaints();
  if (page.arrive) await page.arrive(person, given);
  else await person.open(typeof page.path === 'string' ? page.path : page.path(given));
  const requests = await person.settled();
  const shifts = await person.page.evaluate(() => window.shifts());
  // What can be folded open must be as good as the rest.
  await person.page.evaluate(() => document.querySelectorAll('details').forEach((details) => (details.open = true)));
  return {
    status: person.status,
    requests,
    shifted: shifts.reduce((sum, { by }) => sum + by, 0),
    shifted_what: shifts.flatMap(({ what }) => what),
    complaints: person.takeComplaints(),
  };
}

/** What makes the page wider than its window, if anything does. */
function sideways() {
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  const wide = [...document.body.querySelectorAll('*')].filter((element) => element.getBoundingClientRect().right > clientWidth);
  return [`${scrollWidth} px in ${clientWidth} px`, ...wide.slice(0, 5).map((element) => element.outerHTML.slice(0, 160))];
}

/** Presses Tab from the beginning to the end, and tells what was not reached and where nobody can see the focus. */
async function tabThrough(page) {
  await page.evaluate(`(${prepare})(${faultOf})`);
  const unseen = [];
  let stops = 0;
  for (;;) {
    await page.keyboard.press('Tab');
    const stop = await page.evaluate(nextStop);
    if (stop.end) break;
    stops += 1;
    if (stop.fault) unseen.push(stop.fault);
    if (stops > MOST_TABS) return { stops, unreached: ['the focus never leaves the page'], unseen };
  }
  const unreached = await page.evaluate(() => window.tabbing.wanted().map((element) => element.outerHTML.slice(0, 160)));
  return { stops, unreached, unseen };
}

/** Whether the focus is seen in another theme as well, wherever Tab has led. */
async function focusAgain(page) {
  const found = await page.evaluate(() =>
    [...window.tabbing.reached].map((element) => {
      element.focus();
      return window.tabbing.faultOf(element);
    }),
  );
  return { stops: found.length, unreached: [], unseen: found.filter((fault) => fault) };
}

/** Puts the focus before everything, and what the functions around this one share where they find it. */
function prepare(faultOf) {
  // A field that had the focus would be where Tab goes on from, even after it lost it; the page itself is before everything.
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute('tabindex');
  window.getSelection()?.removeAllRanges();
  window.scrollTo(0, 0);
  const reached = new Set();
  const controls = 'a[href], area[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]';
  const groups = () => new Set([...reached].filter(({ type }) => type === 'radio').map(({ name }) => name));
  window.tabbing = {
    reached,
    faultOf,
    /** Every control that is to be seen and was not reached. Of a group of radio buttons one is. */
    wanted: () =>
      [...document.querySelectorAll(controls)].filter(
        (element) =>
          !reached.has(element) &&
          element.tabIndex >= 0 &&
          !element.disabled &&
          element.checkVisibility({ visibilityProperty: true }) &&
          !(element.type === 'radio' && groups().has(element.name)),
      ),
  };
}

/** Whether the focus has gone to another control, and what is wrong with how it shows there. */
function nextStop() {
  const element = document.activeElement;
  if (!element || element === document.body || window.tabbing.reached.has(element)) return { end: true };
  window.tabbing.reached.add(element);
  return { fault: window.tabbing.faultOf(element) };
}

/** What is wrong with how the focus shows on a control that has it, if anything is. */
function faultOf(element) {
  const fault = (why) => `${why}: ${element.outerHTML.slice(0, 160)}`;
  const { left, top, right, bottom, width, height } = element.getBoundingClientRect();
  if (width < 1 || height < 1 || right <= 0 || bottom <= 0 || left >= innerWidth || top >= innerHeight) return fault('the focus is out of sight');
  const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element);
  // The browser's own ring is made to be seen.
  if (outlineStyle === 'auto') return undefined;
  if (outlineStyle === 'none' || parseFloat(outlineWidth) < 2) return fault(`no ring of 2 px or more around the focus (${outlineStyle} ${outlineWidth})`);
  const context = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
  const paint = (colour) => {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
  };
  const luminance = () => {
    const [red, green, blue] = [...context.getImageData(0, 0, 1, 1).data].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  // What stands behind the ring is whatever the parents paint, the outermost first, on the theme's own canvas.
  const behind = [];
  for (let parent = element.parentElement; parent; parent = parent.parentElement) behind.unshift(getComputedStyle(parent).backgroundColor);
  paint('canvas');
  behind.forEach(paint);
  const ground = luminance();
  paint(outlineColor);
  const ring = luminance();
  const contrast = (Math.max(ground, ring) + 0.05) / (Math.min(ground, ring) + 0.05);
  return contrast < 3 ? fault(`the ring around the focus has a contrast of ${contrast.toFixed(2)}, less than 3`) : undefined;
}
