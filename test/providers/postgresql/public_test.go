package postgresql

import (
	"testing"
)

// TestWhatEverybodyMayDoIsNoGrant is about a role that isn't there, or not any more:
// what everybody may do isn't what it was granted.
func TestWhatEverybodyMayDoIsNoGrant(t *testing.T) {
	c := begin(t)
	id := c.id()
	ghost := id + "-ghost"
	c.sql(t, "postgres", `CREATE DATABASE "`+id+`"`)
	c.sql(t, id, `CREATE SCHEMA app`, `GRANT USAGE ON SCHEMA app TO PUBLIC`)
	on := "database: " + id + ", objectType: Schema, schema: app, privileges: [USAGE]"
	c.make(t, grant, "use", "", "forProvider: {role: "+ghost+", "+on+"}")
	c.Await(t, grant, c.NS, "use", says("ReconcileError", "42704", "does not exist"))
	c.sql(t, "postgres", `CREATE ROLE "`+ghost+`"`)
	c.lookAt(t, grant, "use")
	c.ready(t, grant, "use")
	c.sql(t, id, `DROP OWNED BY "`+ghost+`"`, `DROP ROLE "`+ghost+`"`)
	c.gone(t, grant, "use")

	t.Log("everybody is a role of that name, if it is meant")
	c.make(t, grant, "all", "", "forProvider: {role: public, "+on+"}")
	c.Await(t, grant, c.NS, "all", says("Conflict", "exists already"))
	c.make(t, grant, "all", "espalier.dev/adopt: IfUnmarked", "forProvider: {role: public, database: "+id+", objectType: Schema, schema: app, privileges: [USAGE, CREATE]}")
	c.ready(t, grant, "all")
	if got := c.ask(t, id, `SELECT string_agg(privilege_type, ' ' ORDER BY privilege_type) FROM pg_namespace, aclexplode(nspacl) WHERE nspname = 'app' AND grantee = 0`); got != "CREATE USAGE" {
		t.Errorf("everybody may %s", got)
	}
	c.gone(t, grant, "all")
	c.sql(t, "postgres", `DROP DATABASE "`+id+`"`)
	c.noBindings(t)
}
