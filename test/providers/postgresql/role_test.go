package postgresql

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// texts are what a Secret holds.
func texts(o *unstructured.Unstructured) map[string]string {
	encoded, _, _ := unstructured.NestedStringMap(o.Object, "data")
	out := map[string]string{}
	for key, value := range encoded {
		raw, _ := base64.StdEncoding.DecodeString(value)
		out[key] = string(raw)
	}
	return out
}

// logsIn reports whether a role can log in with a password.
func (c testDatabase) logsIn(t *testing.T, role, password string) bool {
	t.Helper()
	conn, err := c.pg.Connect(t.Context(), role, password, "postgres")
	var refused *pgconn.PgError
	switch {
	case err == nil:
		conn.Close(context.Background())
		return true
	case errors.As(err, &refused) && refused.Code == "28P01":
		return false
	}
	t.Fatal(err)
	return false
}

func TestARoleLogsInWithItsSecret(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	c.create(t, role, id, "", `forProvider: {login: true, createDB: true, connectionLimit: 7, configuration: {search_path: "app, public", statement_timeout: 5s, TimeZone: UTC}}, writeConnectionSecretToRef: {name: login}`)
	o := c.awaitReady(t, role, id)
	if got := o.GetAnnotations()["crossplane.io/external-name"]; got != id {
		t.Errorf("the external name is %q", got)
	}
	s := c.secret(t, "login", func(data map[string]string) error {
		if data["password"] == "" || data["nextPassword"] != "" {
			return errors.New("has no password")
		}
		return nil
	})
	conn, err := pgx.Connect(t.Context(), s["uri"])
	if err != nil {
		t.Fatalf("the URI does not connect: %v", err)
	}
	defer conn.Close(context.Background())
	var user, path, timeout string
	if err := conn.QueryRow(t.Context(), "SELECT current_user, current_setting('search_path'), current_setting('statement_timeout')").Scan(&user, &path, &timeout); err != nil {
		t.Fatal(err)
	}
	if user != id || path != "app, public" || timeout != "5s" {
		t.Errorf("it is %s, with search_path %s and statement_timeout %s", user, path, timeout)
	}
	if s["username"] != id || s["endpoint"] != "127.0.0.1" || s["port"] != fmt.Sprint(c.pg.Port) || s["database"] != "postgres" {
		t.Errorf("the Secret says username %s, endpoint %s, port %s, database %s", s["username"], s["endpoint"], s["port"], s["database"])
	}
	if comment := c.query(t, "postgres", "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = $1", id); !strings.Contains(comment, "Role.postgresql.espalier.dev/"+c.NS+"/"+id) {
		t.Errorf("its comment is %q", comment)
	}
	if stored := c.query(t, "postgres", "SELECT rolpassword FROM pg_authid WHERE rolname = $1", id); !strings.HasPrefix(stored, "SCRAM-SHA-256$4096:") {
		t.Errorf("the server stores %q", stored)
	}

	c.create(t, role, id, "", `forProvider: {login: true, createDB: false, connectionLimit: 3, configuration: {search_path: public}}, writeConnectionSecretToRef: {name: login}`)
	c.awaitReady(t, role, id)
	if got := c.query(t, "postgres", "SELECT format('%s %s %s', rolcreatedb, rolconnlimit, rolconfig) FROM pg_roles WHERE rolname = $1", id); got != "f 3 {search_path=public}" {
		t.Errorf("it has become %s", got)
	}
	if !c.logsIn(t, id, s["password"]) {
		t.Error("its password was changed with the rest")
	}
	c.awaitGone(t, role, id)
	if left := c.query(t, "postgres", "SELECT count(*) FROM pg_roles WHERE rolname = $1", id); left != "0" {
		t.Error("it is left on the server")
	}
	c.expectNoBindings(t)
}

func TestARotatedPasswordReplacesTheOldOne(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	spec := `forProvider: {login: true, passwordRotation: {%s}}, writeConnectionSecretToRef: {name: login}`
	c.create(t, role, id, "", fmt.Sprintf(spec, "token: one"))
	c.awaitReady(t, role, id)
	hasFor := func(token, not string) func(map[string]string) error {
		return func(data map[string]string) error {
			if data["passwordRotation"] != token || data["nextPassword"] != "" || data["password"] == not {
				return fmt.Errorf("was rotated for %q", data["passwordRotation"])
			}
			return nil
		}
	}
	first := c.secret(t, "login", hasFor("one", ""))["password"]
	c.create(t, role, id, "", fmt.Sprintf(spec, "token: two"))
	second := c.secret(t, "login", hasFor("two", first))["password"]
	c.awaitReady(t, role, id)
	if c.logsIn(t, id, first) || !c.logsIn(t, id, second) {
		t.Error("the old password opens, or the new one does not")
	}

	t.Log("and by age, which the Secret has")
	c.create(t, role, id, "", fmt.Sprintf(spec, "token: two, every: 1h"))
	c.awaitReady(t, role, id)
	aged := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	third := c.secret(t, "login", func(data map[string]string) error {
		rotates := data["password"] != second || data["nextPassword"] != ""
		if !rotates && data["passwordSetAt"] != aged { // a reconcile that had read the Secret before may set it back
			c.Patch(t, suite.Secret, c.NS, "login", `{"data":{"passwordSetAt":"`+base64.StdEncoding.EncodeToString([]byte(aged))+`"}}`)
		}
		return hasFor("two", second)(data)
	})["password"]
	if c.logsIn(t, id, second) || !c.logsIn(t, id, third) {
		t.Error("the old password opens, or the new one does not")
	}

	t.Log("an interval of nothing does not rotate it again and again")
	c.create(t, role, id, "crossplane.io/poll-interval: 1s", fmt.Sprintf(spec, "token: two, every: 1ns"))
	c.awaitReady(t, role, id)
	c.triggerReconcile(t, role, id)
	c.awaitReady(t, role, id)
	if latest := c.secret(t, "login", hasFor("two", second))["password"]; latest != third {
		t.Error("it was rotated again within a minute")
	}
	c.saysNowhere(t, id, first, second, third)
	c.awaitGone(t, role, id)
}

func TestAPasswordFromTheUsersSecretIsSet(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	c.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: mine, namespace: $NS}\nstringData: {word: 'my own; \"quoted\" '' pa$$w%rd'}\n")
	c.create(t, role, id, "", `forProvider: {login: true, passwordSecretRef: {name: mine, key: word}}, writeConnectionSecretToRef: {name: login}`)
	c.awaitReady(t, role, id)
	if !c.logsIn(t, id, `my own; "quoted" ' pa$$w%rd`) {
		t.Error("it does not log in")
	}
	c.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: mine, namespace: $NS}\nstringData: {word: another-one-of-mine}\n")
	c.secret(t, "login", func(data map[string]string) error {
		if data["password"] != "another-one-of-mine" {
			return errors.New("has the old one")
		}
		return nil
	})
	if !c.logsIn(t, id, "another-one-of-mine") || c.logsIn(t, id, `my own; "quoted" ' pa$$w%rd`) {
		t.Error("the new one does not open, or the old one does")
	}
	c.saysNowhere(t, id, "another-one-of-mine")
	c.awaitGone(t, role, id)
}

func TestAnExistingRoleIsAdoptedOnlyOnRequest(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	c.sql(t, "postgres", `CREATE ROLE "`+id+`" LOGIN PASSWORD 'it had one'`, `COMMENT ON ROLE "`+id+`" IS 'made by hand'`)
	c.create(t, role, id, "", "forProvider: {createDB: true}")
	c.Await(t, role, c.NS, id, syncedBecause("Conflict", "exists already", "espalier.dev/adopt"))
	if got := c.query(t, "postgres", "SELECT rolcreatedb FROM pg_roles WHERE rolname = $1", id); got != "false" {
		t.Error("it was changed all the same")
	}
	c.create(t, role, id, "espalier.dev/adopt: IfUnmarked", "forProvider: {createDB: true}")
	c.awaitReady(t, role, id)
	if got := c.query(t, "postgres", "SELECT format('%s %s', rolcreatedb, shobj_description(oid, 'pg_authid')) FROM pg_roles WHERE rolname = $1", id); got != "t made by hand" {
		t.Errorf("it has become %q", got)
	}
	if !c.logsIn(t, id, "it had one") {
		t.Error("its password was changed, and nobody had asked for that")
	}
	c.awaitGone(t, role, id)
}

func TestTheBlockersOfADropAreNamed(t *testing.T) {
	c := newTestDatabase(t)
	id, heir := c.id(), c.id()+"-heir"
	c.create(t, role, id, "", "forProvider: {login: true}")
	c.create(t, role, heir, "", "forProvider: {}")
	c.awaitReady(t, role, id)
	c.awaitReady(t, role, heir)
	c.sql(t, "postgres", `CREATE DATABASE "`+id+`" OWNER "`+id+`"`, `CREATE DATABASE "`+id+`2"`)
	c.sql(t, id, `CREATE TABLE things (n int)`, `ALTER TABLE things OWNER TO "`+id+`"`)
	c.sql(t, id+"2", `CREATE SCHEMA mine AUTHORIZATION "`+id+`"`, `CREATE TABLE others (n int)`, `GRANT SELECT ON others TO "`+id+`"`)

	c.Delete(t, role, c.NS, id)
	c.Await(t, role, c.NS, id, syncedBecause("ReconcileError", "2BP01", "owner of database "+id, "2 objects in database "+id+"2", "reassignOwnedTo"))

	t.Log("with another owner for its objects the role is deleted")
	c.create(t, role, id, "", "forProvider: {login: true, reassignOwnedToRef: {name: "+heir+"}, reassignOwnedTo: "+heir+"}")
	c.AwaitGone(t, role, c.NS, id)
	if got := c.query(t, id, "SELECT format('%s %s', (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = $1), (SELECT tableowner FROM pg_tables WHERE tablename = 'things'))", id); got != heir+" "+heir {
		t.Errorf("what it owned is now of %s", got)
	}
	if got := c.query(t, id+"2", "SELECT format('%s %s', (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'mine'), (SELECT relacl FROM pg_class WHERE relname = 'others'))"); got != heir+" {postgres=arwdDxt/postgres}" {
		t.Errorf("in the other database there is %s", got)
	}
	c.sql(t, "postgres", `DROP DATABASE "`+id+`"`, `DROP DATABASE "`+id+`2"`)
	c.awaitGone(t, role, heir)
}

// TestTheProviderNeedsNoSuperuser uses a server on which the provider cannot read stored
// passwords, as on those of cloud providers.
func TestTheProviderNeedsNoSuperuser(t *testing.T) {
	c := newTestDatabase(t)
	id, admin := c.id(), c.createAdmin(t, "CREATEROLE CREATEDB")
	c.Apply(t, `
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ProviderConfig
metadata: {name: default, namespace: $NS}
spec: {credentials: {secretRef: {name: admin}}, tls: {mode: disable}}
`)
	by := ", providerConfigRef: {kind: ProviderConfig, name: default}"
	spec := `forProvider: {login: true, passwordRotation: {token: %s}}, writeConnectionSecretToRef: {name: login}` + by
	var last string
	for _, token := range []string{"one", "two"} {
		c.create(t, role, id, "", fmt.Sprintf(spec, token))
		c.awaitReady(t, role, id)
		password := c.secret(t, "login", func(data map[string]string) error {
			if data["passwordRotation"] != token || data["nextPassword"] != "" {
				return errors.New("wasn't rotated")
			}
			return nil
		})["password"]
		c.awaitReady(t, role, id)
		if !c.logsIn(t, id, password) || (last != "" && c.logsIn(t, id, last)) {
			t.Error("the new password does not open, or the old one does")
		}
		last = password
	}
	c.create(t, database, id, "", "forProvider: {connectionLimit: 2}"+by)
	c.awaitReady(t, database, id)
	c.create(t, role, id+"-2", "", "forProvider: {superuser: true}"+by)
	c.Await(t, role, c.NS, id+"-2", syncedBecause("ReconcileError", "42501", "must be superuser"))
	c.awaitGone(t, role, id+"-2")
	c.awaitGone(t, database, id)
	c.awaitGone(t, role, id)
	c.sql(t, "postgres", `DROP ROLE "`+admin+`"`)
}

// TestAPasswordIsKnownWithoutASession has roles whose logins end after the server has accepted the
// password: one may not connect to the database of the configuration, the other has no connection left.
func TestAPasswordIsKnownWithoutASession(t *testing.T) {
	c := newTestDatabase(t)
	id, admin := c.id(), c.createAdmin(t, "CREATEROLE CREATEDB")
	c.sql(t, "postgres", `CREATE DATABASE "`+id+`" OWNER "`+admin+`"`, `REVOKE CONNECT ON DATABASE "`+id+`" FROM PUBLIC`)
	c.Apply(t, fmt.Sprintf(`
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ProviderConfig
metadata: {name: closed, namespace: $NS}
spec: {database: %s, credentials: {secretRef: {name: admin}}, tls: {mode: disable}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ProviderConfig
metadata: {name: open, namespace: $NS}
spec: {credentials: {secretRef: {name: admin}}, tls: {mode: disable}}
`, id))
	for name, spec := range map[string]string{"closed": "login: true", "open": "login: true, connectionLimit: 0"} {
		c.create(t, role, id+"-"+name, "", "forProvider: {"+spec+"}, writeConnectionSecretToRef: {name: "+name+"}, providerConfigRef: {kind: ProviderConfig, name: "+name+"}")
		c.awaitReady(t, role, id+"-"+name)
		c.awaitGone(t, role, id+"-"+name)
	}
	c.sql(t, "postgres", `DROP DATABASE "`+id+`" WITH (FORCE)`, `DROP ROLE "`+admin+`"`)
	c.expectNoBindings(t)
}
