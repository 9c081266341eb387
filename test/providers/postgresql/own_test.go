package postgresql

import (
	"fmt"
	"testing"
)

// TestTheRoleThatConnectsIsNobodysToTake takes on the role as which this program is
// logged in: its password would be another from then on, and in the Secret of whoever
// asked for it.
func TestTheRoleThatConnectsIsNobodysToTake(t *testing.T) {
	c := begin(t)
	id := c.id()
	admin := id + "-admin"
	c.sql(t, "postgres", `CREATE ROLE "`+admin+`" LOGIN CREATEROLE PASSWORD 'of the admin'`)
	c.Put(t, fmt.Sprintf(`
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
	c.make(t, role, "thief", "espalier.dev/adopt: IfUnmarked, crossplane.io/external-name: "+admin, "forProvider: {login: true}, writeConnectionSecretToRef: {name: loot}"+by)
	c.Await(t, role, c.NS, "thief", says("Conflict", "the configuration, which connects as it", "left alone"))
	if !c.logsIn(t, admin, "of the admin") {
		t.Error("its password is another")
	}

	c.gone(t, role, "thief")

	t.Log("it can be looked at, and whoever is rid of the object still has the role")
	c.make(t, role, "thief", "espalier.dev/adopt: IfUnmarked, crossplane.io/external-name: "+admin, "forProvider: {login: true}, managementPolicies: [Observe]"+by)
	c.ready(t, role, "thief")
	c.gone(t, role, "thief")
	if !c.logsIn(t, admin, "of the admin") {
		t.Error("its password is another")
	}
	c.sql(t, "postgres", `DROP ROLE "`+admin+`"`)
	c.noBindings(t)
}
