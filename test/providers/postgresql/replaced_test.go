package postgresql

import "testing"

// TestWhatOthersHaveCreatedAgainIsTheirs has an administrator drop what a tenant has created, and create others with the
// same names. They get no mark, are not changed, and are not dropped with the objects.
func TestWhatOthersHaveCreatedAgainIsTheirs(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	c.share(t, "names: ["+c.NS+"]")
	tenant := c.newTenant(t, c.NS, id)
	tenant.create(t, role, id, "", "forProvider: {login: true, connectionLimit: 3}, writeConnectionSecretToRef: {name: login}")
	tenant.create(t, database, id, "", "forProvider: {connectionLimit: 3}")
	tenant.create(t, inside, "app", "", "forProvider: {database: "+id+"}")
	c.awaitReady(t, role, id)
	c.awaitReady(t, database, id)
	c.awaitReady(t, inside, "app")
	state := func() string {
		return c.query(t, id, `SELECT concat_ws(', ', (SELECT format('role %s %s', rolconnlimit, shobj_description(oid, 'pg_authid')) FROM pg_roles WHERE rolname = $1),
			(SELECT format('database %s %s', datconnlimit, shobj_description(oid, 'pg_database')) FROM pg_database WHERE datname = $1),
			(SELECT format('schema %s', obj_description(oid, 'pg_namespace')) FROM pg_namespace WHERE nspname = 'app'))`, id)
	}

	t.Log("a schema, in a database that stays")
	c.sql(t, id, `DROP SCHEMA app; CREATE SCHEMA app`)
	c.triggerReconcile(t, inside, "app")
	c.Await(t, inside, c.NS, "app", syncedBecause("Conflict", "exists already", "espalier.dev/adopt"))
	tenant.awaitGone(t, inside, "app")

	t.Log("the role and the database")
	c.sql(t, "postgres", `DROP DATABASE "`+id+`" WITH (FORCE)`, `DROP ROLE "`+id+`"; CREATE ROLE "`+id+`" SUPERUSER`, `CREATE DATABASE "`+id+`"`)
	c.sql(t, id, `CREATE SCHEMA app`)
	c.triggerReconcile(t, role, id)
	c.triggerReconcile(t, database, id)
	c.Await(t, role, c.NS, id, syncedBecause("NotAllowed", "no Role of the namespace manages", "ForeignRoles"))
	c.Await(t, database, c.NS, id, syncedBecause("NotAllowed", "no Database of the namespace manages", "ForeignDatabases"))
	const theirs = "role -1 , database -1 , schema "
	if got := state(); got != theirs {
		t.Errorf("there is %s", got)
	}

	t.Log("the names belong to the namespace no longer")
	tenant.create(t, role, id+"-member", "", "forProvider: {memberOf: ["+id+"]}")
	tenant.create(t, inside, "app", "espalier.dev/adopt: IfUnmarked", "forProvider: {database: "+id+"}")
	c.Await(t, role, c.NS, id+"-member", syncedBecause("NotAllowed", "spec.forProvider.memberOf", "ForeignRoles"))
	c.Await(t, inside, c.NS, "app", syncedBecause("NotAllowed", "spec.forProvider.database", "ForeignDatabases"))
	tenant.awaitGone(t, role, id+"-member")
	tenant.awaitGone(t, inside, "app")

	t.Log("an administrator allows their adoption, and the tenant requests it")
	c.Patch(t, sharedConfig, "", id, `{"spec":{"allow":["ForeignRoles", "ForeignDatabases"]}}`)
	c.Await(t, role, c.NS, id, syncedBecause("Conflict", "exists already", "set the annotation espalier.dev/adopt to IfUnmarked"))
	tenant.create(t, database, id, "espalier.dev/adopt: IfUnmarked", "forProvider: {connectionLimit: 3}")
	c.awaitReady(t, database, id)
	tenant.awaitGone(t, database, id)
	tenant.awaitGone(t, role, id)
	if got := c.query(t, "postgres", `SELECT concat_ws(' ', (SELECT rolname FROM pg_roles WHERE rolname = $1), (SELECT datname FROM pg_database WHERE datname = $1))`, id); got != id {
		t.Errorf("%q is left, want the role of the administrator", got)
	}
	c.sql(t, "postgres", `DROP ROLE "`+id+`"`)
	c.expectNoBindings(t)
}
