package postgresql

import (
	"fmt"
	"testing"
)

// TestATenantCannotReserveNamesOnAServerWithoutLogin has a ProviderConfig of a namespace refer to
// a server of which the namespace does not have the password.
func TestATenantCannotReserveNamesOnAServerWithoutLogin(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: guessed, namespace: $NS}
stringData: {username: postgres, password: guessed}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ProviderConfig
metadata: {name: squat, namespace: $NS}
spec: {host: 127.0.0.1, port: %d, credentials: {secretRef: {name: guessed}}, tls: {mode: disable}}
`, c.pg.Port))
	c.create(t, role, "squatter", "crossplane.io/external-name: "+id, "forProvider: {}, providerConfigRef: {kind: ProviderConfig, name: squat}")
	c.Await(t, role, c.NS, "squatter", syncedBecause("ReconcileError", "28P01"))
	c.create(t, role, id, "", "forProvider: {}")
	c.awaitReady(t, role, id)
	c.awaitGone(t, role, id)
}
