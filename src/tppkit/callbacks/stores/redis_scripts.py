"""The Lua scripts of the Redis store: each is one step that nothing comes between.

Every script gets the same keys: the callback's hash, the sets of what is due, done and failed (scored by time), the set of
versions (scored by when they were set), the hash of the subject's version, and the set of what of the failed is tried again by
nobody (scored as there). All have one hash tag, so that they stand on one node of a cluster.
"""

from __future__ import annotations

# A server that is full refuses what takes room only as a script's first write, so what frees some comes first.
_DONE = """
local function done(key, member, at)
  redis.call('HDEL', key, 'url', 'body', 'signature', 'due')
  redis.call('HSET', key, 'state', 'done')
  redis.call('ZREM', KEYS[2], member)
  redis.call('ZADD', KEYS[3], at, member)
end
local function held()
  local row = redis.call('HMGET', KEYS[1], 'state', 'attempts')
  return row[1] == 'claimed' and row[2] == ARGV[2]
end
"""

_FAILED_NO_MORE = """
local function failed_no_more(member)
  redis.call('ZREM', KEYS[4], member)
  redis.call('ZREM', KEYS[7], member)
end
"""

# member, digest, received at, fields...
ADD = """
local digest = redis.call('HGET', KEYS[1], 'digest')
if digest then return digest == ARGV[2] and 'repeated' or 'conflict' end
redis.call('HSET', KEYS[1], 'state', 'waiting', 'attempts', 0, 'due', ARGV[3], unpack(ARGV, 4))
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
return 'stored'
"""

# member, digest, at, until, fields...
CLAIM = (
    _FAILED_NO_MORE
    + """
local row = redis.call('HMGET', KEYS[1], 'state', 'digest', 'due', 'attempts')
if row[1] then
  if row[2] ~= ARGV[2] then return 'conflict' end
  if row[1] == 'done' then return 'repeated' end
  if row[1] == 'claimed' and tonumber(row[3]) > tonumber(ARGV[3]) then return 'busy' end
end
local attempts = tonumber(row[4] or '0') + 1
redis.call('HSET', KEYS[1], 'state', 'claimed', 'attempts', attempts, 'due', ARGV[4], unpack(ARGV, 5))
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
failed_no_more(ARGV[1])
return attempts
"""
)

# A version is pending until the callback that set it is done or failed; what is as old or older waits meanwhile. When that callback's
# lease has ended, its process may have died behind the effect: the same version may have it again, an older one must not follow it.
# The content is kept with the version that it belongs to.
# member, attempt, at, version as twenty digits or empty, subject, prefix of hashes, content or empty
BEGIN = (
    _DONE
    + """
if not held() then return 'busy' end
if ARGV[4] ~= '' then
  local known = redis.call('HMGET', KEYS[6], 'version', 'pending', 'key', 'content')
  if known[1] and ARGV[4] <= known[1] then
    done(KEYS[1], ARGV[1], ARGV[3])
    local told = ARGV[7] ~= '' and known[4] and string.sub(known[4], 1, 21) == ARGV[4] .. ':'
    return told and known[4] ~= ARGV[4] .. ':' .. ARGV[7] and 'version-conflict' or 'stale'
  end
  if known[3] and known[3] ~= ARGV[1] and ARGV[4] <= known[2] then
    local other = redis.call('HMGET', ARGV[6] .. known[3], 'state', 'due')
    if other[1] == 'claimed' and (ARGV[4] < known[2] or tonumber(other[2]) > tonumber(ARGV[3])) then
      redis.call('HSET', KEYS[1], 'state', 'waiting', 'attempts', ARGV[2] - 1)  -- this was no attempt
      return 'busy'
    end
  end
  redis.call('HSET', KEYS[6], 'pending', ARGV[4], 'key', ARGV[1])
  redis.call('ZADD', KEYS[5], ARGV[3], ARGV[5])
end
return 'applied'
"""
)

# member, attempt, at, version as twenty digits or empty, content or empty
FINISH = (
    _DONE
    + """
if not held() then return 'busy' end
done(KEYS[1], ARGV[1], ARGV[3])
if ARGV[4] ~= '' then
  local known = redis.call('HMGET', KEYS[6], 'version', 'key')
  if not known[1] or known[1] < ARGV[4] then
    redis.call('HSET', KEYS[6], 'version', ARGV[4], 'content', ARGV[5] ~= '' and ARGV[4] .. ':' .. ARGV[5] or '')
  end
  if known[2] == ARGV[1] then redis.call('HDEL', KEYS[6], 'pending', 'key') end
end
return 'applied'
"""
)

# member, attempt, reason, received at, due at or empty, subject
FAIL = (
    _DONE
    + """
if not held() then return end
redis.call('HSET', KEYS[1], 'state', 'failed', 'reason', ARGV[3], 'due', ARGV[5])
if ARGV[3] == 'lease-ended' then redis.call('HINCRBY', KEYS[1], 'attempts', -1) end  -- this was no attempt
redis.call('ZADD', KEYS[4], ARGV[4], ARGV[1])
if redis.call('HGET', KEYS[6], 'key') == ARGV[1] then
  redis.call('HDEL', KEYS[6], 'pending', 'key')
  if redis.call('EXISTS', KEYS[6]) == 0 then redis.call('ZREM', KEYS[5], ARGV[6]) end
end
if ARGV[5] == '' then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZADD', KEYS[7], ARGV[4], ARGV[1])
else
  redis.call('ZADD', KEYS[2], ARGV[5], ARGV[1])
end
"""
)

# The first write is a claim, which a server that is full refuses: no attempt is used up where the handler could not be called.
# prefix of hashes, at, until, limit
TAKE = (
    _FAILED_NO_MORE
    + """
local taken, lost = {}, {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[2], 'LIMIT', 0, ARGV[4])) do
  local key = ARGV[1] .. member
  local state = redis.call('HGET', key, 'state')
  local lapsed = state == 'claimed'
  if lapsed and #taken > 0 then break end
  if state then
    local due = string.format('%.0f', ARGV[3] + #taken)  -- a microsecond apart, so that they stay in this order
    redis.call('HINCRBY', key, 'attempts', 1)
    redis.call('HSET', key, 'state', 'claimed', 'due', due)
    redis.call('ZADD', KEYS[2], due, member)
    failed_no_more(member)
    table.insert(taken, {lapsed and 1 or 0, redis.call('HGETALL', key)})
  else
    table.insert(lost, member)  -- by the server; the service may send it again
  end
  if lapsed then break end
end
for _, member in ipairs(lost) do
  redis.call('ZREM', KEYS[2], member)
  failed_no_more(member)
end
return taken
"""
)

# prefix of hashes, until, then member and attempt of each
RENEW = """
for n = 3, #ARGV, 2 do
  local key = ARGV[1] .. ARGV[n]
  local row = redis.call('HMGET', key, 'state', 'attempts')
  if row[1] == 'claimed' and row[2] == ARGV[n + 1] then
    local due = string.format('%.0f', ARGV[2] + (n - 3) / 2)  -- as by TAKE
    redis.call('HSET', key, 'due', due)
    redis.call('ZADD', KEYS[2], due, ARGV[n])
  end
end
"""

# prefix of hashes, limit, and of the last that is known: received at, member
FAILED = (
    _FAILED_NO_MORE
    + """
local function is_behind(member, last)  -- as Redis sorts, by bytes; Lua's < goes by the server's locale
  for n = 1, #member do
    if member:byte(n) ~= last:byte(n) then return member:byte(n) > last:byte(n) end
  end
  return false
end
local place = 0
if ARGV[3] then  -- that member may be there no more, so the place behind it is searched for among those of its moment
  place = redis.call('ZCOUNT', KEYS[4], '-inf', '(' .. ARGV[3])
  local last = redis.call('ZCOUNT', KEYS[4], '-inf', ARGV[3])
  while place < last do
    local middle = math.floor((place + last) / 2)
    if is_behind(redis.call('ZRANGE', KEYS[4], middle, middle)[1], ARGV[4]) then
      last = middle
    else
      place = middle + 1
    end
  end
end
local failed = {}
while #failed < tonumber(ARGV[2]) do
  local member = redis.call('ZRANGE', KEYS[4], place, place)[1]
  if not member then break end
  local key = ARGV[1] .. member
  if redis.call('HGET', key, 'state') == 'failed' then
    table.insert(failed, redis.call('HGETALL', key))
    place = place + 1
  else
    failed_no_more(member)  -- lost by the server, and perhaps sent again
  end
end
return failed
"""
)

# member, at
RELEASE = (
    _FAILED_NO_MORE
    + """
if redis.call('HGET', KEYS[1], 'state') ~= 'failed' then return 0 end
redis.call('HSET', KEYS[1], 'state', 'waiting', 'due', ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
failed_no_more(ARGV[1])
return 1
"""
)

# member, attempts, at
DISCARD = (
    _DONE
    + _FAILED_NO_MORE
    + """
local row = redis.call('HMGET', KEYS[1], 'state', 'attempts')
if row[1] ~= 'failed' or row[2] ~= ARGV[2] then return 0 end
done(KEYS[1], ARGV[1], ARGV[3])
failed_no_more(ARGV[1])
return 1
"""
)

# What the server has lost counts too, and what it lost and was sent again: none is told only when no more is behind.
# prefix of hashes, received before, at, limit
DISCARD_FAILED = (
    _DONE
    + _FAILED_NO_MORE
    + """
local members = redis.call('ZRANGEBYSCORE', KEYS[7], '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[4])
for _, member in ipairs(members) do
  local key = ARGV[1] .. member
  local row = redis.call('HMGET', key, 'state', 'due')
  if row[1] == 'failed' and row[2] ~= '' then
    redis.call('ZREM', KEYS[7], member)  -- it is tried again
  else
    if row[1] == 'failed' then done(key, member, ARGV[3]) end
    failed_no_more(member)
  end
end
return #members
"""
)

# prefix of hashes, prefix of versions, done before, versions before, limit
PURGE = """
local done = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[3], 'LIMIT', 0, ARGV[5])
for _, member in ipairs(done) do
  redis.call('DEL', ARGV[1] .. member)
  redis.call('ZREM', KEYS[3], member)
end
local versions = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', '(' .. ARGV[4], 'LIMIT', 0, ARGV[5])
for _, subject in ipairs(versions) do
  redis.call('DEL', ARGV[2] .. subject)
  redis.call('ZREM', KEYS[5], subject)
end
return #done + #versions
"""
