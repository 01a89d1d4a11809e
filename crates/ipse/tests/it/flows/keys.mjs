// The whole life of a key, as its owner sees it: from the sign-up to the deletion, with a burst on the way.

import { Failure, flow } from './lib.mjs';

await flow(async ({ person, given, step, ask }) => {
  const expect = (found, wanted, what) => {
    if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Failure(`${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
  };
  /** Changes reach the server within a second. */
  const expectStatus = async (key, status) => expect(await ask('status', { key, status }), status, 'the API answers');

  step('sign up from the front page');
  await person.open('/');
  await person.follow('Get a key');
  await person.fill('E-mail address', given.email);
  await person.fill('Password', 'short');
  await person.press('Create account');
  await person.expectText('Use at least 8 characters');
  expect(await person.valueOf('E-mail address'), given.email, 'what was typed is kept');
  await person.fill('Password', given.password);
  await person.press('Create account');
  await person.expectPath('/dashboard');

  step('find an empty dashboard that says what to do');
  await person.expectText('Make your first key.');
  await person.expectText('You see the key, once');

  step('make a key');
  await person.fill('Name', 'Shop');
  await person.pick('Scope', 'full');
  await person.press('Make the key');
  await person.expectText('Your key is ready.');
  const key = await person.copy('The key');
  const line = await person.copy('Command that uses the key');

  step('paste the copied line into a terminal');
  const answer = await ask('run', line);
  expect([answer.status, answer.ip, answer.http_protocol], ['success', '127.0.0.1', 'HTTP/1.1'], 'it answers');
  await person.follow('Done');
  await person.expectNoText(key);

  step('see the call on the key’s page');
  const page = person.path();
  await person.expectText('1 used today, 9,999 left');

  if (person.runsScripts) {
    step('try the key in the documentation');
    await person.open('/docs#try');
    await person.fill('Your key', key);
    await person.press('Send one request');
    await person.expectText('200 OK');
    expect(JSON.parse(await person.codeOf('Body of the answer')).status, 'success', 'the answer on the page');
  }

  step('a program of the owner runs wild');
  expect(await ask('burst', key), { answered: 300, paused: 1 }, 'what it was answered');
  await person.open('/dashboard');
  await person.expectText('Paused');
  await person.expectText('more than 300 requests in a minute');
  await person.follow('Shop');
  await person.expectPath(page);
  await person.expectText('Paused since');
  await person.expectText('301 requests within 60 seconds; most in one second: 10');
  await person.expectText('Look for a loop.');

  step('resume it with one click');
  await person.press('Resume');
  await person.expectText('The key is resumed and works again.');
  await person.expectNoText('Paused since');
  await expectStatus(key, 200);

  step('roll it, and have both texts for an hour');
  await person.pick('The old text ends', 'in 1 hour');
  await person.press('Roll the key');
  await person.expectText('Your key has a new text.');
  const rolled = await person.copy('The key');
  expect(rolled === key, false, 'it is another text');
  await expectStatus(key, 200);
  await expectStatus(rolled, 200);
  if (person.runsScripts) {
    // A reload must not roll it again.
    await person.page.reload();
    await person.expectPath(page);
  } else {
    await person.follow('Done');
  }
  await person.expectText(`${key.slice(-4)} works until`);
  await expectStatus(rolled, 200);
  await ask('later', { seconds: 3600 });
  await expectStatus(key, 401);
  await expectStatus(rolled, 200);
  await person.open(page);
  await person.expectText(rolled.slice(-4));
  await person.expectNoText('works until');

  step('switch it off and on');
  await person.press('Deactivate');
  await person.expectText('The key is switched off.');
  await expectStatus(rolled, 403);
  await person.press('Reactivate');
  await person.expectText('The key is switched on again.');
  await expectStatus(rolled, 200);

  step('rename it');
  await person.fill('Name', 'Shop “two” & <b>more</b>');
  await person.press('Rename');
  await person.expectText('The key has its new name.');
  await person.expectText('Shop “two” & <b>more</b>');

  step('take its numbers along');
  // 300 of the burst, and all that was tried before and after it.
  await ask('folded', { key: page.split('/').at(-1), answered: 304, refused: 2 });
  await person.open(page);
  await person.expectText('The same as a table');
  const file = await person.download('Download as CSV');
  expect(file.name, `ipse-key-${page.split('/').at(-1)}-usage.csv`, 'the name of the file');
  const [head, ...days] = file.text.trimEnd().split('\r\n');
  expect([head, days.length], ['day,answered,over_quota,refused', 30], 'what is in it');
  const [today, answered, overQuota, refused] = days.at(-1).split(',');
  expect([today, overQuota, Number(answered) >= 304, Number(refused) >= 2], ['2026-11-15', '0', true, true], 'today');

  step('delete it, once its name is typed');
  await person.fill('Type its name to confirm', 'Shop');
  await person.press('Delete the key');
  await person.expectText('Nothing was deleted');
  await expectStatus(rolled, 200);
  await person.fill('Type its name to confirm', 'Shop “two” & <b>more</b>');
  await person.press('Delete the key');
  await person.expectPath('/dashboard');
  await person.expectText('The key is deleted');
  await person.expectText('Make your first key.');
  await expectStatus(rolled, 401);

  step('sign out');
  await person.press('Sign out');
  await person.expectPath('/signin');
  await person.open('/dashboard');
  await person.expectPath('/signin');
});
