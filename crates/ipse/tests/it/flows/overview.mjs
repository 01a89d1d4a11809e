// The operator looks at the overview of a node, which follows what happens there until it is told to stay as it is.

import { Failure, flow } from './lib.mjs';

await flow(async ({ person, step, ask }) => {
  step('look at a node at which nothing happened');
  await person.open('/');
  await person.expectText('All is well.');
  await person.expectText('0 in ten minutes');

  step('see what happens without doing anything');
  const table = person.page.getByText('The same as a table').first();
  if (person.runsScripts) await table.click();
  await ask('lookups', 37);
  await person.expectText('37 in ten minutes');
  if (person.runsScripts && !(await table.evaluate((summary) => summary.parentElement.open && document.activeElement === summary))) {
    throw new Failure('what was folded open is closed, or has lost the focus');
  }

  step('stop it, and go on');
  if (person.runsScripts) {
    await person.press('Stop following');
    await ask('lookups', 5);
    await person.press('Follow');
  } else {
    await person.follow('Stop following');
    await person.page.waitForURL(/\?still$/);
    await ask('lookups', 5);
    await person.follow('Follow');
  }
  await person.expectText('42 in ten minutes');

  step('ask the doctor');
  await person.follow('Doctor');
  await person.expectPath('/doctor');
  await person.expectText('What this server saw of');
});
