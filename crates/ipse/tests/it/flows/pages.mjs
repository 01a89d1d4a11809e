// Every page that there is, for whatever must hold of all of them: see `visits.mjs`. A page that is missing here is a page
// that nobody looks at: add it.

/**
 * A page:
 * - `name`: what a failure calls it;
 * - `path`: where it is, or a function that makes it of the test's parameters;
 * - `status`: what it comes with, if that is not 200;
 * - `session`: in which of the browser profiles below, if not in that of somebody who is not signed in;
 * - `before(person, given)`: what has to be done first, each time that it is visited;
 * - `arrive(person, given)`: how one gets there, if not by opening its path. It is done once; then the window is resized.
 */
export const pages = [
  { name: 'front page', path: '/' },
  { name: 'documentation', path: '/docs' },
  { name: 'sign-up', path: '/signup' },
  { name: 'enterprise', path: '/enterprise' },
  { name: 'nothing here', path: '/nowhere', status: 404 },
  { name: 'doctor', path: (given) => given.doctor },
];

/**
 * Browser profiles beside that of a visitor, and what is done once in each before the first of its pages is visited:
 * `member: async (person, given) => …` signs up.
 */
export const sessions = {};
