-- The one function by which many nodes share counters. Everything that it decides about a subject, it decides in one
-- step, with the clock of this engine.
--
-- KEYS[1]  the subject's state, a hash
-- KEYS[2]  the moments of its burst window, a list, the oldest first
-- ARGV[1]  what is wanted: charge, charge_day, offer, confirm, look
-- ARGV[2]  the engine's incarnation: what another one left is not believed
-- ARGV[3]  the moment in milliseconds, in tests; empty for the clock
-- ARGV[4]  the moment by the clock after which nobody waits for this any more; empty if somebody always does
-- then     charge, charge_day: the generation of the key, its daily limit
--          offer: the day, and the range from..to that was reserved for this incarnation and nobody else
--          confirm: the generation whose pause is written
--
-- The state: e incarnation, d day, u how far the day is used, m how far it may be used, f..t a further range,
-- g generation, p pause (1 being written, 2 written), n moments in the window, l the last of them,
-- x when the window's end was set, a when a further range was asked for
local BURST_LIMIT, WINDOW_MS, DAY_MS = 300, 60000, 86400000
local RESERVE, RESERVE_PART, ASK_AGAIN_MS = 2, 32, 100
local MOST_USED = 4294967296
local STATE_KEPT_MS, WINDOW_KEPT_MS, WINDOW_RENEWED_MS = 3 * DAY_MS, 120000, 30000

local time = redis.call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local wanted, incarnation, now = ARGV[1], ARGV[2], tonumber(ARGV[3]) or clock
-- An engine that stood still finds what was asked meanwhile, all at once. It was answered without it, and would seem a burst.
if clock > (tonumber(ARGV[4]) or clock) then
  return { 'stale' }
end
local names = { 'e', 'd', 'u', 'm', 'f', 't', 'g', 'p', 'n', 'l', 'x', 'a' }
local found = redis.call('HMGET', KEYS[1], unpack(names))
local state = { e = found[1] or '' }
for place = 2, #names do
  state[names[place]] = tonumber(found[place] or '0')
end

-- The day never goes back by a clock that was set back a little. From a day that is further ahead, it does.
local day = math.floor(now / DAY_MS)
if state.d == day + 1 then
  day = state.d
end
local is_ours = state.e == incarnation and state.d == day

local function keep(...)
  redis.call('HSET', KEYS[1], ...)
end

if wanted == 'look' then
  return { state.e == incarnation and 1 or 0, state.d, state.u }
end

if wanted == 'confirm' then
  if state.g == tonumber(ARGV[5]) and state.p == 1 then
    keep('p', 2)
  end
  return { 'done' }
end

if wanted == 'offer' then
  local from, to = tonumber(ARGV[6]), tonumber(ARGV[7])
  if tonumber(ARGV[5]) ~= day then
    return { 'late' }
  end
  if not is_ours then
    keep('e', incarnation, 'd', day, 'u', from, 'm', to, 'f', 0, 't', 0)
    redis.call('PEXPIRE', KEYS[1], STATE_KEPT_MS)
  elseif from == to then
    -- Nothing of the day is left to reserve: when this is used, all is.
    if state.u >= state.m and state.f == state.t then
      keep('u', from, 'm', to)
    end
  elseif from == state.m then
    if to == state.f and state.f < state.t then
      keep('m', state.t, 'f', 0, 't', 0)
    else
      keep('m', to)
    end
  elseif from > state.m and state.f == state.t then
    keep('f', from, 't', to)
  elseif from == state.t and state.f < state.t then
    keep('t', to)
  end
  -- What was asked for has come.
  keep('a', 0)
  return { 'done' }
end

local generation, limit = tonumber(ARGV[5]), tonumber(ARGV[6])
local has_window = wanted == 'charge'
if generation > state.g then
  state.g, state.p, state.n, state.l = generation, 0, 0, 0
  redis.call('DEL', KEYS[2])
  keep('g', generation, 'p', 0, 'n', 0, 'l', 0)
  redis.call('PEXPIRE', KEYS[1], STATE_KEPT_MS)
end
local is_full = false
if has_window then
  -- Moments by a clock that was set back since, or by another one, say nothing about this minute. Without them more may
  -- pass; with them a key could be paused that did nothing wrong.
  if state.n > 0 and (now < state.l or now - state.l >= WINDOW_MS) then
    state.n = 0
    redis.call('DEL', KEYS[2])
  end
  if state.n >= BURST_LIMIT then
    local oldest = redis.call('LINDEX', KEYS[2], 0)
    if oldest then
      is_full = now - tonumber(oldest) < WINDOW_MS
    else
      state.n = 0
    end
  end
  -- A pause that could not be written is none when the minute that did it is over.
  if state.p == 2 or state.p == 1 and is_full then
    return { 'paused', state.g, now, redis.call('LRANGE', KEYS[2], 0, -1) }
  end
end

-- Of several nodes that need a range, one fetches it, and the others wait a moment: of two that are fetched at once, the one
-- that comes too late is lost to the key's owner.
local function reserve()
  if is_ours and now >= state.a and now - state.a < ASK_AGAIN_MS then
    return { 'wait' }
  end
  if is_ours then
    keep('a', now)
  else
    keep('e', incarnation, 'd', day, 'u', 0, 'm', 0, 'f', 0, 't', 0, 'a', now)
    redis.call('PEXPIRE', KEYS[1], STATE_KEPT_MS)
  end
  return { 'reserve', day }
end

if not is_ours then
  return reserve()
end
if state.u >= state.m and state.u < limit then
  if state.f == state.t then
    return reserve()
  end
  state.u, state.m, state.f, state.t = state.f, state.t, 0, 0
  keep('m', state.m, 'f', 0, 't', 0)
end

local is_within = state.u < limit
if is_within then
  state.u = state.u + 1
end
if is_full then
  keep('u', state.u, 'p', 1)
  return { 'burst', state.g, now, redis.call('LRANGE', KEYS[2], 0, -1) }
end
if has_window then
  redis.call('RPUSH', KEYS[2], now)
  if state.n >= BURST_LIMIT then
    redis.call('LPOP', KEYS[2])
  end
  if state.n == 0 or now - state.x >= WINDOW_RENEWED_MS or now < state.x then
    redis.call('PEXPIRE', KEYS[2], WINDOW_KEPT_MS)
    keep('x', now)
  end
  keep('u', state.u, 'p', 0, 'n', math.min(state.n + 1, BURST_LIMIT), 'l', now)
else
  keep('u', state.u)
end
if not is_within then
  return { 'used_up', day, state.u }
end
-- A further range is asked for while half of this one is left, for the records may be away when it is needed.
local is_low = 0
local few = math.max(RESERVE, math.floor(limit / RESERVE_PART))
if state.m < limit and state.f == state.t and state.m - state.u < few and now - state.a >= ASK_AGAIN_MS then
  keep('a', now)
  is_low = 1
end
-- What is said most often is one whole number, which is the cheapest to say and to read.
return (day * MOST_USED + state.u) * 2 + is_low
