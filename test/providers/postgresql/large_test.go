package postgresql

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestLargeExternalValuesAreTruncated lets those who may do little on a server say much
// there: what is reported for it has to fit into an object.
func TestLargeExternalValuesAreTruncated(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	c.create(t, role, id, "crossplane.io/poll-interval: 1h", "forProvider: {login: true}, writeConnectionSecretToRef: {name: login}")
	c.awaitReady(t, role, id)
	login := c.secret(t, "login", func(map[string]string) error { return nil })
	c.awaitReady(t, role, id)
	themselves := c.connect(t, id, login["password"], "postgres")
	for _, sql := range []string{`ALTER ROLE CURRENT_USER SET application_name = '%s'`, `ALTER ROLE CURRENT_USER SET search_path = '%s'`} {
		if _, err := themselves.Exec(t.Context(), fmt.Sprintf(sql, strings.Repeat("x", 2<<20))); err != nil {
			t.Fatal(err)
		}
	}
	themselves.Close(t.Context())
	c.sql(t, "postgres", `COMMENT ON ROLE "`+id+`" IS '`+strings.Repeat("ü", 2<<20)+`'`)
	c.create(t, role, id, "", "forProvider: {login: true, connectionLimit: 3}, writeConnectionSecretToRef: {name: login}")
	o := c.awaitReady(t, role, id)
	if got, _, _ := unstructured.NestedString(o.Object, "status", "atProvider", "comment"); len(got) < 100 || len(got) > 4096 {
		t.Errorf("its comment has %d bytes", len(got))
	}
	t.Log("and what is to be otherwise can be told and set")
	c.create(t, role, id, "", "forProvider: {login: true, connectionLimit: 3, configuration: {application_name: x}}, writeConnectionSecretToRef: {name: login}")
	c.awaitReady(t, role, id)
	if got := c.query(t, "postgres", "SELECT rolconfig FROM pg_roles WHERE rolname = $1", id); got != "{application_name=x}" {
		t.Errorf("it begins with %.100s", got)
	}
	c.awaitGone(t, role, id)
}

// TestGrantsOnThousandsOfObjectsAreOneStatement grants on so many objects that a statement with
// all their names would not fit into the Binding.
func TestGrantsOnThousandsOfObjectsAreOneStatement(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	c.sql(t, "postgres", `CREATE DATABASE "`+id+`"`, `CREATE ROLE "`+id+`"`)
	name := strings.Repeat("long", 12)
	c.sql(t, id, `CREATE SCHEMA app`)
	c.create(t, grant, "read", "", "forProvider: {role: "+id+", database: "+id+", objectType: Functions, schema: app, privileges: [EXECUTE]}")
	c.sql(t, id, `CREATE FUNCTION app.first() RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	c.triggerReconcile(t, grant, "read")
	c.awaitReady(t, grant, "read")
	c.sql(t, id, `DO $$ BEGIN FOR n IN 1..12000 LOOP EXECUTE format('CREATE FUNCTION app.`+name+`%s(`+name+` int, x`+name+` text) RETURNS int LANGUAGE sql AS ''SELECT 1''', n); END LOOP; END $$`)
	c.triggerReconcile(t, grant, "read")
	c.Await(t, grant, c.NS, "read", func(o *unstructured.Unstructured) error {
		if n, _, _ := unstructured.NestedInt64(o.Object, "status", "atProvider", "objects"); n != 12001 {
			return fmt.Errorf("%d objects are granted", n)
		}
		return syncedBecause("ReconcileSuccess")(o)
	})
	if got := c.query(t, id, `SELECT count(*) FROM pg_proc p, aclexplode(proacl) WHERE pronamespace = 'app'::regnamespace AND grantee = to_regrole($1)`, `"`+id+`"`); got != "12001" {
		t.Errorf("%s were granted", got)
	}
	c.awaitGone(t, grant, "read")
	c.sql(t, "postgres", `DROP DATABASE "`+id+`"`, `DROP ROLE "`+id+`"`)
}
