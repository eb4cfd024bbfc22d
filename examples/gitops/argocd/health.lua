-- What Argo CD shows for an Agent, a Skill or an McpServer. The operator derives Ready from the stages before it, so its
-- reason is that of the first stage that does not hold.
local passing = {
  Preflight = true, RollingOut = true, Suspending = true, NotObserved = true, SkillPending = true, McpServerPending = true,
  SourcePending = true,
}

local function verdict(status, message)
  return { status = status, message = message }
end

if obj.metadata.deletionTimestamp ~= nil then
  return verdict("Progressing", "being deleted")
end
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return verdict("Progressing", "the operator has not seen this generation yet")
end

local ready, abnormal = nil, nil
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Ready" then
    ready = condition
  elseif condition.status == "True" and (condition.type == "Degraded" or condition.type == "CardDrift") then
    abnormal = condition.type .. ": " .. condition.message
  end
end
if ready == nil or ready.status == "Unknown" then
  return verdict("Progressing", ready and ready.message or "the operator has not reconciled it yet")
end
if ready.status == "True" then
  -- It serves; what it lacks is said and stops no sync.
  return verdict("Healthy", abnormal or ready.message)
end
if ready.reason == "Suspended" then
  return verdict("Suspended", ready.message)
end
return verdict(passing[ready.reason] and "Progressing" or "Degraded", ready.reason .. ": " .. ready.message)
