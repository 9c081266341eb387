package postgresql

import (
	"fmt"
	"testing"
)

// TestDatabaseSettingsDoNotAffectTheProvider is about what sessions in a database
// begin with: this program's are not to be kept from anything by that.
func TestDatabaseSettingsDoNotAffectTheProvider(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	c.sql(t, "postgres", `CREATE ROLE "`+id+`"`, `CREATE DATABASE "`+id+`"`)
	for setting, value := range map[string]string{
		"default_transaction_read_only": "on", "statement_timeout": "1ms", "lock_timeout": "1ms", "standard_conforming_strings": "off", "search_path": "nowhere",
		"client_encoding": "LATIN1", "default_transaction_isolation": "serializable", "quote_all_identifiers": "on", "bytea_output": "escape",
		"role": id,
	} {
		c.sql(t, "postgres", fmt.Sprintf(`ALTER DATABASE %q SET %s = '%s'`, id, setting, value))
	}
	c.create(t, inside, "app", `crossplane.io/external-name: "it\\\\'s ü"`, "forProvider: {database: "+id+", onDelete: Cascade}")
	c.awaitReady(t, inside, "app")
	c.awaitGone(t, inside, "app")
	c.sql(t, "postgres", `DROP DATABASE "`+id+`"`, `DROP ROLE "`+id+`"`)
	c.expectNoBindings(t)
}

// TestTheRoleThatTheUserIsConfiguredToActAsIsKept has an administrator let the user of the configuration act as
// a group in all its sessions. A database's setting does not replace that.
func TestTheRoleThatTheUserIsConfiguredToActAsIsKept(t *testing.T) {
	c := newTestDatabase(t)
	id, admin := c.id(), c.createAdmin(t, "NOINHERIT")
	c.sql(t, "postgres", `CREATE ROLE "`+id+`-dba" CREATEROLE`, `CREATE ROLE "`+id+`-other"`, `GRANT "`+id+`-dba", "`+id+`-other" TO "`+admin+`"`, `ALTER ROLE "`+admin+`" SET role = "`+id+`-dba"`,
		`CREATE DATABASE "`+id+`" OWNER "`+id+`-dba"`, `ALTER DATABASE "`+id+`" SET role = "`+id+`-other"`)
	c.Apply(t, `
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ProviderConfig
metadata: {name: dba, namespace: $NS}
spec: {credentials: {secretRef: {name: admin}}, tls: {mode: disable}}
`)
	c.create(t, inside, "app", "", "forProvider: {database: "+id+"}, providerConfigRef: {kind: ProviderConfig, name: dba}")
	c.awaitReady(t, inside, "app")
	if got := c.query(t, id, `SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'app'`); got != id+"-dba" {
		t.Errorf("the owner of the schema is %s", got)
	}
	c.awaitGone(t, inside, "app")
	c.sql(t, "postgres", `DROP DATABASE "`+id+`"`, `DROP ROLE "`+id+`-dba"`, `DROP ROLE "`+id+`-other"`, `DROP ROLE "`+admin+`"`)
	c.expectNoBindings(t)
}
