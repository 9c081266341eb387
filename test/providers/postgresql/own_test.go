package postgresql

import (
	"fmt"
	"testing"
)

// TestTheConnectingRoleCannotBeAdopted tries to adopt the role that the provider logs in as. That would
// change its password, and publish it in a connection secret.
func TestTheConnectingRoleCannotBeAdopted(t *testing.T) {
	c := newTestDatabase(t)
	admin := c.createAdmin(t, "CREATEROLE")
	c.Apply(t, fmt.Sprintf(`
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ClusterProviderConfig
metadata: {name: %q}
spec: {credentials: {secretRef: {name: admin, namespace: $NS}}, tls: {mode: disable}, allow: [ForeignRoles]}
`, admin))
	by := ", providerConfigRef: {name: " + admin + "}"
	c.create(t, role, "thief", "espalier.dev/adopt: IfUnmarked, crossplane.io/external-name: "+admin, "forProvider: {login: true}, writeConnectionSecretToRef: {name: loot}"+by)
	c.Await(t, role, c.NS, "thief", syncedBecause("Conflict", "the configuration, which connects as it", "it is not changed"))
	if !c.logsIn(t, admin, "of the admin") {
		t.Error("its password was changed")
	}

	c.awaitGone(t, role, "thief")

	t.Log("it can be observed, and stays after the deletion of the managed resource")
	c.create(t, role, "thief", "espalier.dev/adopt: IfUnmarked, crossplane.io/external-name: "+admin, "forProvider: {login: true}, managementPolicies: [Observe]"+by)
	c.awaitReady(t, role, "thief")
	c.awaitGone(t, role, "thief")

	t.Log("an object that may update and not delete does not change it either")
	c.create(t, role, "thief", "crossplane.io/external-name: "+admin, "forProvider: {login: true, connectionLimit: 1}, managementPolicies: [Observe, Update]"+by)
	c.awaitReady(t, role, "thief")
	if got := c.query(t, "postgres", "SELECT rolconnlimit FROM pg_roles WHERE rolname = $1", admin); got != "-1" {
		t.Errorf("its connection limit was changed to %s", got)
	}
	c.awaitGone(t, role, "thief")
	if !c.logsIn(t, admin, "of the admin") {
		t.Error("its password was changed")
	}
	c.sql(t, "postgres", `DROP ROLE "`+admin+`"`)
	c.expectNoBindings(t)
}
