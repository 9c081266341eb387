package postgresql

import (
	"fmt"
	"testing"
)

// TestTheConnectingRoleCannotBeAdopted takes on the role as which this program is
// logged in: its password would be another from then on, and in the Secret of whoever
// asked for it.
func TestTheConnectingRoleCannotBeAdopted(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	admin := id + "-admin"
	c.sql(t, "postgres", `CREATE ROLE "`+admin+`" LOGIN CREATEROLE PASSWORD 'of the admin'`)
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: admin, namespace: $NS}
stringData: {username: %q, password: of the admin, endpoint: 127.0.0.1, port: "%d"}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ClusterProviderConfig
metadata: {name: %[1]q}
spec: {credentials: {secretRef: {name: admin, namespace: $NS}}, tls: {mode: disable}}
`, admin, c.pg.Port))
	by := ", providerConfigRef: {name: " + admin + "}"
	c.create(t, role, "thief", "espalier.dev/adopt: IfUnmarked, crossplane.io/external-name: "+admin, "forProvider: {login: true}, writeConnectionSecretToRef: {name: loot}"+by)
	c.Await(t, role, c.NS, "thief", syncedBecause("Conflict", "the configuration, which connects as it", "it is not changed"))
	if !c.logsIn(t, admin, "of the admin") {
		t.Error("its password is another")
	}

	c.awaitGone(t, role, "thief")

	t.Log("it can be looked at, and whoever is rid of the object still has the role")
	c.create(t, role, "thief", "espalier.dev/adopt: IfUnmarked, crossplane.io/external-name: "+admin, "forProvider: {login: true}, managementPolicies: [Observe]"+by)
	c.awaitReady(t, role, "thief")
	c.awaitGone(t, role, "thief")
	if !c.logsIn(t, admin, "of the admin") {
		t.Error("its password is another")
	}
	c.sql(t, "postgres", `DROP ROLE "`+admin+`"`)
	c.expectNoBindings(t)
}
