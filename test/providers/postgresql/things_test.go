package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/postgresql/testkit/postgrestest"
)

// stack is an application's part of a server, in the wrong order.
const stack = `
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Grant
metadata: {name: read, namespace: $NS}
spec: {forProvider: {roleRef: {name: $ID-reader}, databaseRef: {name: $ID}, objectType: Tables, schemaRef: {name: app}, privileges: [SELECT]}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Grant
metadata: {name: use, namespace: $NS}
spec: {forProvider: {roleRef: {name: $ID-reader}, databaseRef: {name: $ID}, objectType: Schema, schemaRef: {name: app}, privileges: [USAGE]}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Grant
metadata: {name: connect, namespace: $NS}
spec: {forProvider: {roleRef: {name: $ID-reader}, databaseSelector: {matchLabels: {of: $ID}}, privileges: [CONNECT]}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Grant
metadata: {name: member, namespace: $NS}
spec: {forProvider: {roleRef: {name: $ID-reader}, memberOfRef: {name: $ID-owner}, withOption: true}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Extension
metadata: {name: pgcrypto, namespace: $NS}
spec: {forProvider: {databaseRef: {name: $ID}, schemaRef: {name: app}}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Schema
metadata: {name: app, namespace: $NS}
spec: {forProvider: {databaseRef: {name: $ID}, ownerRef: {name: $ID-owner}}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Database
metadata: {name: $ID, namespace: $NS, labels: {of: $ID}}
spec:
  forProvider: {ownerRef: {name: $ID-owner}, encoding: utf-8, connectionLimit: 9}
  initProvider: {template: template0, lcCollate: C}
  writeConnectionSecretToRef: {name: database}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Role
metadata: {name: $ID-owner, namespace: $NS}
spec: {forProvider: {}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Role
metadata: {name: $ID-reader, namespace: $NS}
spec: {forProvider: {login: true, databaseRef: {name: $ID}}, writeConnectionSecretToRef: {name: reader}}
`

func TestAStackIsCreatedInAnyOrderAndDeleted(t *testing.T) {
	c := newTestDatabase(t)
	c.Apply(t, stack)
	id := c.id()
	c.awaitReady(t, database, id)
	c.awaitReady(t, inside, "app")
	c.awaitReady(t, extension, "pgcrypto")
	for _, name := range []string{"use", "connect", "member"} {
		c.awaitReady(t, grant, name)
	}
	if got := c.query(t, id, `SELECT format('%s %s %s %s %s', pg_get_userbyid(datdba), datcollate, datconnlimit, (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'pgcrypto'),
		(SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'app')) FROM pg_database WHERE datname = current_database()`); got != id+"-owner C 9 app "+id+"-owner" {
		t.Errorf("there is %s", got)
	}
	if comment := c.query(t, id, `SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()`); !strings.HasPrefix(comment, "managed by espalier: Database.") {
		t.Errorf("the database's comment is %q", comment)
	}

	t.Log("missing objects are awaited, and later ones are granted too")
	c.Await(t, grant, c.NS, "read", syncedBecause("ReconcileError", `has no tables`))
	c.sql(t, id, `CREATE TABLE app.one (n int)`, `CREATE VIEW app.two AS SELECT 2`)
	c.look(t, "read")
	c.awaitReady(t, grant, "read")
	c.sql(t, id, `CREATE TABLE app.three (n int)`)
	c.look(t, "read")
	c.Await(t, grant, c.NS, "read", func(o *unstructured.Unstructured) error {
		if n, _, _ := unstructured.NestedInt64(o.Object, "status", "atProvider", "objects"); n != 3 {
			return fmt.Errorf("%d objects are granted", n)
		}
		return syncedBecause("ReconcileSuccess")(o)
	})
	login := c.secret(t, "reader", func(data map[string]string) error {
		if data["password"] == "" {
			return errors.New("has no password")
		}
		return nil
	})
	c.awaitReady(t, role, id+"-reader")
	reader := c.connect(t, id+"-reader", login["password"], login["database"])
	if login["database"] != id {
		t.Errorf("the Secret says database %s", login["database"])
	}
	if _, err := reader.Exec(t.Context(), `SELECT * FROM app.one, app.two, app.three`); err != nil {
		t.Error(err)
	}
	reader.Close(context.Background())

	t.Log("what may be done can be changed")
	c.Apply(t, strings.Replace(strings.SplitN(stack, "---", 2)[0], "[SELECT]", "[INSERT, UPDATE]", 1))
	c.awaitReady(t, grant, "read")
	if got := c.query(t, id, `SELECT string_agg(privilege_type, ' ' ORDER BY privilege_type) FROM pg_class, aclexplode(relacl) WHERE oid = 'app.three'::regclass AND grantee = to_regrole($1)`, `"`+id+`-reader"`); got != "INSERT UPDATE" {
		t.Errorf("on the table there is %s", got)
	}

	for _, name := range []string{"read", "use", "connect", "member"} {
		c.awaitGone(t, grant, name)
	}
	if got := c.query(t, "postgres", `SELECT count(*) FROM pg_shdepend WHERE refobjid = to_regrole($1)::oid AND refclassid = 'pg_authid'::regclass`, `"`+id+`-reader"`); got != "0" {
		t.Errorf("%s things are left that the reader was granted", got)
	}
	c.awaitGone(t, role, id+"-reader")
	c.awaitGone(t, extension, "pgcrypto")

	t.Log("objects in a schema block its deletion, without onDelete: Cascade")
	c.Delete(t, inside, c.NS, "app")
	c.Await(t, inside, c.NS, "app", syncedBecause("ReconcileError", "2BP01", "table app.one depends on schema app", "onDelete: Cascade"))
	c.create(t, inside, "app", "", "forProvider: {databaseRef: {name: "+id+"}, ownerRef: {name: "+id+"-owner}, onDelete: Cascade}")
	c.AwaitGone(t, inside, c.NS, "app")

	t.Log("sessions in a database block its deletion")
	guest := c.connect(t, postgrestest.Superuser, postgrestest.Password, id)
	defer guest.Close(context.Background())
	c.Delete(t, database, c.NS, id)
	c.Await(t, database, c.NS, id, syncedBecause("ReconcileError", "55006", "sessions of postgres", "onDelete: Force"))
	c.create(t, database, id, "", "forProvider: {encoding: utf-8, onDelete: Force}")
	c.AwaitGone(t, database, c.NS, id)
	c.awaitGone(t, role, id+"-owner")
	c.expectNoBindings(t)
}

// look requests a reconcile of a grant.
func (c testDatabase) look(t *testing.T, name string) { t.Helper(); c.triggerReconcile(t, grant, name) }

// triggerReconcile requests a reconcile.
func (c testDatabase) triggerReconcile(t *testing.T, kind schema.GroupVersionKind, name string) {
	t.Helper()
	body := fmt.Sprintf(`{"metadata":{"annotations":{"crossplane.io/reconcile-requested-at":%q}}}`, time.Now().Format(time.RFC3339Nano))
	c.Patch(t, kind, c.NS, name, body)
}

func TestAnExistingDatabaseIsAdoptedOnlyOnRequest(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	c.sql(t, "postgres", `CREATE DATABASE "`+id+`"`)
	c.sql(t, id, `CREATE TABLE precious (n int)`)
	c.create(t, database, id+"-own", "", "forProvider: {}")
	c.awaitReady(t, database, id+"-own")
	c.create(t, database, id, "", "forProvider: {connectionLimit: 5}")
	c.Await(t, database, c.NS, id, syncedBecause("Conflict", "exists already"))
	c.Delete(t, database, c.NS, id)
	c.AwaitGone(t, database, c.NS, id)
	c.query(t, id, `SELECT count(*) FROM precious`)

	c.create(t, database, "another", "crossplane.io/external-name: "+id, "forProvider: {connectionLimit: 5}, deletionPolicy: Orphan")
	c.awaitReady(t, database, "another")
	if got := c.query(t, id, `SELECT format('%s %s', datconnlimit, (SELECT count(*) FROM precious)) FROM pg_database WHERE datname = current_database()`); got != "5 0" {
		t.Errorf("there is %s", got)
	}

	t.Log("another for the same waits, wherever it is")
	c.create(t, database, id, "", "forProvider: {}")
	c.Await(t, database, c.NS, id, syncedBecause("NameReserved", "another"))
	c.awaitGone(t, database, id)

	t.Log("what cannot be changed is reported")
	c.create(t, database, "another", "crossplane.io/external-name: "+id, "forProvider: {encoding: LATIN1}, deletionPolicy: Orphan")
	c.Await(t, database, c.NS, "another", syncedBecause("ReconcileError", "encoding is UTF8, and should be LATIN1"))
	c.awaitGone(t, database, "another")
	c.query(t, id, `SELECT count(*) FROM precious`)
	c.sql(t, "postgres", `DROP DATABASE "`+id+`"`)
	c.awaitGone(t, database, id+"-own")
}

// TestADatabaseThatIsATemplateIsDeletedOnceItIsNone deletes a database that the server protects as a
// template. The field that made it one also resolves that during the deletion.
func TestADatabaseThatIsATemplateIsDeletedOnceItIsNone(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	c.create(t, database, id, "", "forProvider: {isTemplate: true}")
	c.awaitReady(t, database, id)
	c.Delete(t, database, c.NS, id)
	c.Await(t, database, c.NS, id, syncedBecause("ReconcileError", "42809", "cannot drop a template database", "spec.forProvider.isTemplate: false"))
	c.create(t, database, id, "", "forProvider: {isTemplate: false}")
	c.AwaitGone(t, database, c.NS, id)
	if got := c.query(t, "postgres", `SELECT count(*) FROM pg_database WHERE datname = $1`, id); got != "0" {
		t.Error("it is left on the server")
	}
	c.expectNoBindings(t)
}

// TestPrivilegesThatOthersHaveGrantedAreRevoked has a role with the grant option grant what the owner of
// the schema has granted too, and more. The server revokes these only as that role.
func TestPrivilegesThatOthersHaveGrantedAreRevoked(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	reader, other := id+"-reader", id+"-other"
	c.sql(t, "postgres", `CREATE DATABASE "`+id+`"`, `CREATE ROLE "`+reader+`"`, `CREATE ROLE "`+other+`"`)
	c.sql(t, id, `CREATE SCHEMA app`, `GRANT ALL ON SCHEMA app TO "`+other+`" WITH GRANT OPTION`)
	c.create(t, grant, "use", "", "forProvider: {role: "+reader+", database: "+id+", objectType: Schema, schema: app, privileges: [USAGE]}")
	c.awaitReady(t, grant, "use")
	granted := func() string {
		t.Helper()
		return c.query(t, id, `SELECT string_agg(x, ', ' ORDER BY x) FROM (SELECT CASE grantor WHEN nspowner THEN 'owner ' ELSE 'other ' END || privilege_type
			FROM pg_namespace, aclexplode(nspacl) WHERE nspname = 'app' AND pg_get_userbyid(grantee) = $1) AS t(x)`, reader)
	}

	t.Log("a privilege that is not listed")
	c.sql(t, id, `SET ROLE "`+other+`"; GRANT ALL ON SCHEMA app TO "`+reader+`"`)
	if got := granted(); got != "other CREATE, other USAGE, owner USAGE" {
		t.Fatalf("the reader has %s", got)
	}
	c.look(t, "use")
	testkit.Poll(t, "the privilege is revoked", func() bool { return granted() == "other USAGE, owner USAGE" })
	c.awaitReady(t, grant, "use")

	t.Log("all of them, with the Grant")
	c.sql(t, id, `SET ROLE "`+other+`"; GRANT ALL ON SCHEMA app TO "`+reader+`"`)
	c.awaitGone(t, grant, "use")
	if got := granted(); got != "<null>" {
		t.Errorf("the reader still has %s", got)
	}
	c.sql(t, "postgres", `DROP DATABASE "`+id+`"`, `DROP ROLE "`+reader+`"`, `DROP ROLE "`+other+`"`)
	c.expectNoBindings(t)
}
