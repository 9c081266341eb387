package membership

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// OnRest sets the function that is called when the answer of Rest may have changed. It must not block.
func (m *Membership) OnRest(changed func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restChanged = changed
}

// Rest publishes the UIDs of the Holds for which this replica rests, and reports whether all other replicas
// rest for each of them too. It writes nothing if they are the same as before.
func (m *Membership) Rest(ctx context.Context, holds []string) (all bool, err error) {
	slices.Sort(holds)
	m.mu.Lock()
	own := m.own
	m.resting = strings.Join(holds, " ")
	m.mu.Unlock()
	if own == nil {
		return false, nil
	}
	if err := own.rest(ctx, strings.Join(holds, " ")); err != nil {
		return false, fmt.Errorf("write to the Lease of this replica: %w", err)
	}
	for _, other := range m.records.annotations(own.id, restingAnnotation) {
		of := strings.Fields(other)
		if slices.ContainsFunc(holds, func(uid string) bool { return !slices.Contains(of, uid) }) {
			return false, nil
		}
	}
	return true, nil
}
