package postgresql

import (
	"testing"
)

// TestPrivilegesOfPublicDoNotCountAsGranted grants to a role that does not exist, or no longer
// does. What all roles may do through PUBLIC is not granted to it.
func TestPrivilegesOfPublicDoNotCountAsGranted(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	ghost := id + "-ghost"
	c.sql(t, "postgres", `CREATE DATABASE "`+id+`"`)
	c.sql(t, id, `CREATE SCHEMA app`, `GRANT USAGE ON SCHEMA app TO PUBLIC`)
	on := "database: " + id + ", objectType: Schema, schema: app, privileges: [USAGE]"
	c.create(t, grant, "use", "", "forProvider: {role: "+ghost+", "+on+"}")
	c.Await(t, grant, c.NS, "use", syncedBecause("ReconcileError", "42704", "does not exist"))
	c.sql(t, "postgres", `CREATE ROLE "`+ghost+`"`)
	c.triggerReconcile(t, grant, "use")
	c.awaitReady(t, grant, "use")
	c.sql(t, id, `DROP OWNED BY "`+ghost+`"`, `DROP ROLE "`+ghost+`"`)
	c.awaitGone(t, grant, "use")

	t.Log("everybody is a role of that name, if it is meant")
	c.create(t, grant, "all", "", "forProvider: {role: public, "+on+"}")
	c.Await(t, grant, c.NS, "all", syncedBecause("Conflict", "exists already"))
	c.create(t, grant, "all", "espalier.dev/adopt: IfUnmarked", "forProvider: {role: public, database: "+id+", objectType: Schema, schema: app, privileges: [USAGE, CREATE]}")
	c.awaitReady(t, grant, "all")
	if got := c.query(t, id, `SELECT string_agg(privilege_type, ' ' ORDER BY privilege_type) FROM pg_namespace, aclexplode(nspacl) WHERE nspname = 'app' AND grantee = 0`); got != "CREATE USAGE" {
		t.Errorf("everybody may %s", got)
	}
	c.awaitGone(t, grant, "all")
	c.sql(t, "postgres", `DROP DATABASE "`+id+`"`)
	c.expectNoBindings(t)
}
