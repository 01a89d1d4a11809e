// Every page that there is, for whatever must hold of all of them: see `visits.mjs`. A page that is missing here is a page
// that nobody looks at: add it. Whom and what it needs is made by `scene.rs`.

/**
 * A page:
 * - `name`: what a failure calls it;
 * - `path`: where it is, or a function that makes it of the test's parameters;
 * - `status`: what it comes with, if that is not 200;
 * - `session`: in which of the browser profiles below, if not in that of somebody who is not signed in;
 * - `before(person, given)`: what has to be done first;
 * - `arrive(person, given)`: how one gets there, if not by opening its path. It is done once; then the window is resized.
 */
export const pages = [
  { name: 'front page', path: '/' },
  { name: 'documentation', path: '/docs' },
  { name: 'enterprise', path: '/enterprise' },
  { name: 'privacy', path: '/privacy' },
  { name: 'terms', path: '/terms' },
  { name: 'nothing here', path: '/nowhere', status: 404 },
  { name: 'doctor', path: (given) => given.doctor },
  { name: 'overview', path: (given) => `${given.operator}/` },
  { name: 'overview that stays as it is', path: (given) => `${given.operator}/?still` },
  { name: 'doctor of the operator', path: (given) => `${given.operator}/doctor` },

  { name: 'sign-up', path: '/signup' },
  {
    name: 'sign-up refused',
    status: 422,
    before: fill('/signup', { 'E-mail address': 'owner@example.com', Password: 'password' }),
    arrive: press('Create account', 'guessers try first'),
  },
  { name: 'sign-up closed', path: (given) => `${given.closed}/signup` },
  {
    name: 'sign-up by mail',
    before: fill((given) => `${given.mail}/signup`, { 'E-mail address': 'visitor@example.com', Password: 'four words in a row' }),
    arrive: press('Create account', 'Look into your inbox'),
  },
  { name: 'finish signing up', path: (given) => given.links.verify },
  {
    name: 'finishing refused',
    status: 422,
    before: fill((given) => given.links.verify, { 'The password that you chose': 'not the password' }),
    arrive: press('Confirm and sign in', 'This is not the password that you typed'),
  },
  { name: 'a link that is over', path: `/reset/${'0'.repeat(64)}`, status: 410 },

  { name: 'sign-in', path: '/signin?next=%2Faccount' },
  { name: 'sign-in after signing out', path: '/signin?signed-out' },
  { name: 'sign-in without cookies', path: '/signin?no-cookie' },
  {
    name: 'sign-in refused',
    status: 422,
    before: fill('/signin', { 'E-mail address': 'nobody@example.com', Password: 'not the password' }),
    arrive: press('Sign in', 'or the password is wrong'),
  },
  {
    name: 'a form of another time',
    status: 403,
    before: async (person, given) => {
      await fill('/signin', { 'E-mail address': 'nobody@example.com', Password: 'not the password' })(person, given);
      await person.context.clearCookies();
    },
    arrive: press('Sign in', 'Please send that again'),
  },

  { name: 'reset without mail', path: '/reset' },
  { name: 'reset', path: (given) => `${given.mail}/reset` },
  {
    name: 'reset sent',
    before: fill((given) => `${given.mail}/reset`, { 'E-mail address': 'nobody@example.com' }),
    arrive: press('Send the link', 'Look into your inbox'),
  },
  { name: 'new password', path: (given) => given.links.reset },
  {
    name: 'new password refused',
    status: 422,
    before: fill((given) => given.links.reset, { 'New password': 'password' }),
    arrive: press('Set the password', 'guessers try first'),
  },

  { name: 'dashboard, empty', session: 'newcomer', path: '/dashboard' },
  {
    name: 'dashboard, key refused',
    session: 'newcomer',
    status: 422,
    before: fill('/dashboard', { Name: 'a\u2028b' }),
    arrive: press('Make the key', 'cannot be seen'),
  },
  { name: 'account', session: 'newcomer', path: '/account' },
  { name: 'account after a change', session: 'newcomer', path: '/account?done=password' },
  {
    name: 'account, password refused',
    session: 'newcomer',
    status: 422,
    before: fill('/account', { 'Your password now': 'not the password', 'New password': 'four other words' }),
    arrive: press('Change password', 'This is not your password'),
  },
  { name: 'two-factor, set up', session: 'newcomer', path: '/account/totp' },
  {
    name: 'two-factor, code refused',
    session: 'newcomer',
    status: 422,
    before: fill('/account/totp', { 'The six digits that the app shows now': '000000', 'Your password': 'four words in a row' }),
    arrive: press('Switch it on', 'not the code of this moment'),
  },

  { name: 'dashboard', session: 'owner', path: '/dashboard' },
  { name: 'dashboard after a deletion', session: 'owner', path: '/dashboard?done=deleted' },
  { name: 'key in use', session: 'owner', path: key('used') },
  { name: 'key paused by a burst', session: 'owner', path: key('paused') },
  { name: 'key paused by hand', session: 'owner', path: key('byHand') },
  { name: 'key switched off', session: 'owner', path: key('inactive') },
  { name: 'key paused and switched off', session: 'owner', path: key('both') },
  { name: 'key with two texts', session: 'owner', path: key('rolled') },
  { name: 'key that was never used', session: 'owner', path: key('unused') },
  { name: 'no such key', session: 'owner', path: '/dashboard/keys/99999', status: 404 },
  {
    name: 'key, name refused',
    session: 'owner',
    status: 422,
    before: fill(key('unused'), { Name: 'a\u2028b' }),
    arrive: press('Rename', 'cannot be seen'),
  },
  {
    name: 'key, deletion refused',
    session: 'owner',
    status: 422,
    before: fill(key('unused'), { 'Type its name to confirm': 'another name' }),
    arrive: press('Delete the key', 'Nothing was deleted'),
  },
  {
    name: 'key made',
    session: 'owner',
    before: fill('/dashboard', { Name: 'One more' }),
    arrive: press('Make the key', 'Your key is ready.'),
  },
  {
    name: 'key rolled',
    session: 'owner',
    before: fill(key('unused'), {}),
    arrive: press('Roll the key', 'Your key has a new text.'),
  },
  { name: 'activity', session: 'owner', path: '/account/activity' },
  { name: 'dashboard, full', session: 'full', path: '/dashboard' },

  { name: 'sign-in with a code', session: 'second', path: '/signin/code' },
  {
    name: 'sign-in, code refused',
    session: 'second',
    status: 422,
    before: fill('/signin/code', { Code: '000000' }),
    arrive: press('Sign in', 'wrong, or was used before'),
  },
  {
    name: 'account with a second factor',
    session: 'second',
    before: async (person, given, ask) => fill('/signin/code', { Code: await ask('code', given.totp) })(person, given),
    arrive: async (person) => {
      await person.press('Sign in');
      await person.expectPath('/dashboard');
      person.forgetRequests();
      await person.open('/account');
    },
  },
  { name: 'two-factor, on', session: 'second', path: '/account/totp' },
  {
    name: 'two-factor, password refused',
    session: 'second',
    status: 422,
    before: (person) => person.open('/account/totp').then(() => person.fill('Your password', 'not the password', 'Switch it off')),
    arrive: press('Switch it off', 'This is not your password'),
  },
  {
    name: 'recovery codes',
    session: 'second',
    before: (person) => person.open('/account/totp').then(() => person.fill('Your password', 'four words in a row', 'Recovery codes')),
    arrive: press('Make new codes', 'Your recovery codes'),
  },

  { name: 'new address', session: 'reader', path: (given) => given.links.email },
  { name: 'account with letters', session: 'reader', path: (given) => `${given.mail}/account` },
];

/** Browser profiles beside that of a visitor, and what is done once in each before the first of its pages is visited. */
export const sessions = {
  newcomer: signIn('newcomer@example.com', '/dashboard'),
  owner: signIn('owner@example.com', '/dashboard'),
  full: signIn('full@example.com', '/dashboard'),
  second: signIn('second@example.com', '/signin/code'),
  reader: signIn('owner@example.com', '/dashboard', (given) => given.mail),
};

function signIn(email, path, server = () => '') {
  return async (person, given) => {
    await fill(`${server(given)}/signin`, { 'E-mail address': email, Password: given.password })(person, given);
    await person.press('Sign in');
    await person.expectPath(path);
  };
}

/** Opens a page and types into the fields of its forms. */
function fill(path, texts) {
  return async (person, given) => {
    await person.open(typeof path === 'string' ? path : path(given));
    for (const [label, text] of Object.entries(texts)) await person.fill(label, text);
  };
}

/** Presses a button and waits until this can be read. */
function press(name, text) {
  return async (person) => {
    await person.press(name);
    await person.expectText(text);
  };
}

function key(name) {
  return (given) => `/dashboard/keys/${given.keys[name]}`;
}
