package postgresql

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestATenantGrantsNoPrivilegesOnObjectsOfOthers has an administrator create objects in the database of a
// tenant, who shares the configuration of a superuser. With EXECUTE on dblink_connect_u, a login
// connects as that superuser where the server trusts local clients.
func TestATenantGrantsNoPrivilegesOnObjectsOfOthers(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	owner, reader := id+"-owner", id+"-reader"
	c.share(t, "names: ["+c.NS+"]")
	tenant := c.newTenant(t, c.NS, id)
	tenant.create(t, role, owner, "", "forProvider: {}")
	tenant.create(t, role, reader, "", "forProvider: {login: true}")
	tenant.create(t, database, id, "", "forProvider: {owner: "+owner+"}")
	c.awaitReady(t, role, reader)
	c.awaitReady(t, database, id)
	c.sql(t, id, `CREATE EXTENSION dblink`, `CREATE TABLE audit (n int)`, `CREATE SEQUENCE numbers`, `CREATE SCHEMA app AUTHORIZATION "`+owner+`"`, `CREATE TABLE app.audit (n int)`,
		`SET ROLE "`+owner+`"; CREATE TABLE orders (n serial)`)
	on := func(objectType, rest string) string {
		return "forProvider: {role: " + reader + ", database: " + id + ", objectType: " + objectType + ", " + rest + "}"
	}
	may := func(want string) {
		t.Helper()
		got := c.query(t, id, `SELECT concat_ws(' ', CASE WHEN has_function_privilege($1, 'dblink_connect_u(text)', 'EXECUTE') THEN 'dblink' END, (
			SELECT string_agg(concat(relname, ' ', privilege_type), ' ' ORDER BY relname COLLATE "C") FROM pg_class c, aclexplode(relacl) WHERE pg_get_userbyid(grantee) = $1))`, reader)
		if got != want {
			t.Errorf("the reader may %s, want %s", got, want)
		}
	}

	t.Log("objects that are named are refused")
	tenant.create(t, grant, "dblink", "", on("Functions", "schema: public, objects: [dblink_connect_u], privileges: [EXECUTE]"))
	tenant.create(t, grant, "audit", "", on("Tables", "schema: public, objects: [orders, audit], privileges: [SELECT]"))
	tenant.create(t, grant, "numbers", "", on("Sequences", "schema: public, objects: [numbers], privileges: [USAGE]"))
	for name, object := range map[string]string{"dblink": `"dblink_connect_u"(text)`, "audit": `"audit"`, "numbers": `"numbers"`} {
		c.Await(t, grant, c.NS, name, syncedBecause("NotAllowed", "spec.forProvider.objects", `"public".`+object, `"postgres"`, "does not allow ForeignRoles", "spec.allow"))
	}
	may("")

	t.Log("they are left out of all objects of a schema")
	tenant.create(t, grant, "nothing", "", on("Tables", "schema: app, privileges: [SELECT]"))
	c.Await(t, grant, c.NS, "nothing", syncedBecause("ReconcileError", `"app"`, "no tables", `"app"."audit" belongs to the role "postgres"`, "ForeignRoles"))
	tenant.create(t, grant, "functions", "", on("Functions", "schema: public, privileges: [EXECUTE]"))
	c.Await(t, grant, c.NS, "functions", syncedBecause("ReconcileError", "no functions", "ForeignRoles"))
	for _, name := range []string{"audit", "numbers", "functions"} {
		tenant.awaitGone(t, grant, name)
	}
	tenant.create(t, grant, "tables", "", on("Tables", "schema: public, privileges: [SELECT]"))
	tenant.create(t, grant, "sequences", "", on("Sequences", "schema: public, privileges: [USAGE]"))
	c.awaitReady(t, grant, "tables")
	c.awaitReady(t, grant, "sequences")
	may("orders SELECT orders_n_seq USAGE")
	c.sql(t, id, `CREATE TABLE more (n int)`, `SET ROLE "`+owner+`"; CREATE TABLE items (n int)`)
	awaitObjects := func(name string, want int64) {
		t.Helper()
		c.look(t, name)
		c.Await(t, grant, c.NS, name, func(o *unstructured.Unstructured) error {
			seen, _, _ := unstructured.NestedString(o.Object, "status", "lastHandledReconcileAt")
			if n, _, _ := unstructured.NestedInt64(o.Object, "status", "atProvider", "objects"); n != want || seen != o.GetAnnotations()["crossplane.io/reconcile-requested-at"] {
				return fmt.Errorf("%d objects are granted, as of %s", n, seen)
			}
			return syncedBecause("ReconcileSuccess")(o)
		})
	}
	awaitObjects("tables", 2)
	may("items SELECT orders SELECT orders_n_seq USAGE")

	t.Log("what others have granted on them is not adopted, so that it is not revoked either")
	c.sql(t, id, `GRANT SELECT ON audit, app.audit TO PUBLIC`)
	public := func(rest string) string {
		return "forProvider: {role: public, database: " + id + ", objectType: Tables, " + rest + "}"
	}
	tenant.create(t, grant, "public", "espalier.dev/adopt: IfUnmarked", public("schema: public, objects: [audit], privileges: [SELECT]"))
	tenant.create(t, grant, "public-all", "espalier.dev/adopt: IfUnmarked", public("schema: app, privileges: [REFERENCES]"))
	c.Await(t, grant, c.NS, "public", syncedBecause("NotAllowed", "spec.forProvider.objects", `"public"."audit"`, `"postgres"`, "does not allow ForeignRoles"))
	c.Await(t, grant, c.NS, "public-all", syncedBecause("NotAllowed", "spec.forProvider.schema", `"app"."audit"`, `"postgres"`, "does not allow ForeignRoles"))
	tenant.awaitGone(t, grant, "public")
	tenant.awaitGone(t, grant, "public-all")
	if got := c.query(t, id, `SELECT (has_table_privilege($1, 'audit', 'SELECT') AND has_table_privilege($1, 'app.audit', 'SELECT'))::text`, owner); got != "true" {
		t.Error("a privilege was revoked")
	}
	c.sql(t, id, `REVOKE SELECT ON audit, app.audit FROM PUBLIC`)

	t.Log("what an administrator allows is granted, and kept when it is no longer allowed")
	c.Patch(t, sharedConfig, "", id, `{"spec":{"allow":["ForeignRoles"]}}`)
	awaitObjects("tables", 4)
	c.awaitReady(t, grant, "dblink")
	c.Patch(t, sharedConfig, "", id, `{"spec":{"allow":null}}`)
	tenant.create(t, role, id+"-late", "", "forProvider: {memberOf: [postgres]}") // it shows that the change was observed
	c.Await(t, role, c.NS, id+"-late", syncedBecause("NotAllowed"))
	tenant.awaitGone(t, role, id+"-late")
	c.sql(t, id, `DROP TABLE more`, `CREATE TABLE another (n int)`)
	awaitObjects("tables", 3)
	awaitObjects("dblink", 2) // of which one is an overload

	t.Log("what is revoked is revoked on all")
	tenant.create(t, grant, "tables", "", on("Tables", "schema: public, privileges: [INSERT]"))
	c.awaitReady(t, grant, "tables")
	for _, name := range []string{"dblink", "nothing", "sequences"} {
		tenant.awaitGone(t, grant, name)
	}
	may("items INSERT orders INSERT")
	c.sql(t, id, `GRANT SELECT ON audit TO "`+reader+`"`)
	tenant.awaitGone(t, grant, "tables")
	may("")
	c.sql(t, id, `DROP OWNED BY "`+owner+`" CASCADE`)
	tenant.awaitGone(t, database, id)
	tenant.awaitGone(t, role, reader)
	tenant.awaitGone(t, role, owner)
	c.expectNoBindings(t)
}
