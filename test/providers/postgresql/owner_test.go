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
	c.sql(t, "postgres", `CREATE DATABASE "`+id+`"`)
	for setting, value := range map[string]string{
		"default_transaction_read_only": "on", "statement_timeout": "1ms", "lock_timeout": "1ms", "standard_conforming_strings": "off", "search_path": "nowhere",
		"client_encoding": "LATIN1", "default_transaction_isolation": "serializable", "quote_all_identifiers": "on", "bytea_output": "escape",
	} {
		c.sql(t, "postgres", fmt.Sprintf(`ALTER DATABASE %q SET %s = '%s'`, id, setting, value))
	}
	c.create(t, inside, "app", `crossplane.io/external-name: "it\\\\'s ü"`, "forProvider: {database: "+id+", onDelete: Cascade}")
	c.awaitReady(t, inside, "app")
	c.awaitGone(t, inside, "app")
	c.sql(t, "postgres", `DROP DATABASE "`+id+`"`)
	c.expectNoBindings(t)
}
