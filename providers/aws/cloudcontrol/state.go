package cloudcontrol

import (
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// States of resources, in lower case and with "-" as the separator.
var (
	notReady = []string{
		"creating", "create-in-progress", "pending", "provisioning", "initiating", "initializing", "associating", "starting",
		"in-progress", "pending-creation", "pending-acceptance", "requested", "failed", "create-failed", "creation-failed", "rejected",
		"expired", "error", "errored", "inaccessible", "incompatible-network", "incompatible-parameters", "inactive",
	}
	deleting = []string{"deleting", "delete-in-progress", "deprovisioning", "deleted", "delete-complete"}
)

// setState sets whether a resource can be used, and its state. Cloud Control reports a creation as successful
// when the resource can be used. But an adopted one, or one that was changed without us, may be in any state.
func (c *client) setState(o *external.Observation, properties map[string]any) {
	state := c.stateOf(properties)
	o.State = bounded(state)
	switch normal := strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(state)); {
	case slices.Contains(deleting, normal):
		o.Presence, o.Ready = external.Deleting, external.No
	case slices.Contains(notReady, normal):
		o.Ready = external.No
	}
}

// It is empty for a type without one. It is in a read-only property with a name such as Status, State or
// DBInstanceStatus.
func (c *client) stateOf(properties map[string]any) string {
	names := []string{"Status", "State"}
	if i := strings.LastIndex(c.Type.Name, "::"); i >= 0 {
		names = append(names, c.Type.Name[i+2:]+"Status", c.Type.Name[i+2:]+"State")
	}
	for _, name := range names {
		state, _ := properties[name].(string)
		if state != "" && resourcetype.Has(c.Type.ReadOnlyProperties, resourcetype.Path{name}) {
			return state
		}
	}
	return ""
}
