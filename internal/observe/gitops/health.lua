-- Argo CD runs this with the object in obj. Each kind that Espalier serves has these conditions.
local hs = { status = "Progressing", message = "it has not been reconciled yet" }
local status = obj.status
if status == nil then
  return hs
end
local generation = obj.metadata.generation
if status.observedGeneration ~= nil and status.observedGeneration ~= generation then
  hs.message = "generation " .. tostring(generation) .. " has not been observed yet"
  return hs
end
local c = {}
for _, condition in ipairs(status.conditions or {}) do
  c[condition.type] = condition
end
local function is(kind, value)
  return c[kind] ~= nil and c[kind].status == value
end
local function say(health, condition)
  hs.status = health
  hs.message = condition.message
  if hs.message == nil or hs.message == "" then
    hs.message = condition.reason or ""
  end
  return hs
end
if c.Ready ~= nil and c.Ready.reason == "ReconciliationSuspended" then
  return say("Suspended", c.Ready)
end
if c.Synced ~= nil and c.Synced.reason == "ReconcilePaused" then
  return say("Suspended", c.Synced)
end
if is("Stalled", "True") then
  return say("Degraded", c.Stalled)
end
if is("Reconciling", "True") then
  return say("Progressing", c.Reconciling)
end
if is("Ready", "True") then
  return say("Healthy", { message = c.Ready.message or "" })
end
if status.state == "ERROR" then
  return say("Degraded", c.Ready or { message = "its state is ERROR" })
end
if c.Ready ~= nil then
  return say("Progressing", c.Ready)
end
-- The author of the definition has replaced the conditions, by others than Ready.
if status.state == "ACTIVE" then
  return say("Healthy", { message = "" })
end
if status.state == "SUSPENDED" then
  return say("Suspended", { message = "it is suspended" })
end
if status.state ~= nil then
  return say("Progressing", { message = "its state is " .. status.state })
end
return hs
