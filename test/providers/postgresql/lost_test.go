package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/providers/postgresql/testkit/postgrestest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/certificate"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestLostResponsesAreRecovered breaks the connection after the server has executed a statement,
// before it responds.
func TestLostResponsesAreRecovered(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	words := map[string]int{
		`CREATE ROLE "` + id: 1, `CREATE DATABASE "` + id: 1, `COMMENT ON DATABASE "` + id: 1,
		`" PASSWORD 'SCRAM`: 2, `CREATE SCHEMA "app"`: 1, `GRANT CREATE ON SCHEMA`: 1, `REVOKE ALL`: 1, `DROP SCHEMA`: 1, `DROP DATABASE`: 1, `DROP ROLE`: 1,
	}
	all := 11
	p := newProxy(t, pg.Port, words)
	through := *pg
	through.Port = p.port
	c.createProviderConfig(t, &through, id, c.NS)
	by := ", providerConfigRef: {name: " + id + "}"
	c.create(t, role, id, "", "forProvider: {login: true, passwordRotation: {token: one}}, writeConnectionSecretToRef: {name: login}"+by)
	c.create(t, database, id, "", "forProvider: {owner: "+id+"}"+by)
	c.create(t, inside, "app", "", "forProvider: {database: "+id+"}"+by)
	c.create(t, grant, "use", "", "forProvider: {role: "+id+", database: "+id+", objectType: Schema, schema: app, privileges: [CREATE]}"+by)
	c.awaitReady(t, role, id)
	c.awaitReady(t, database, id)
	c.awaitReady(t, inside, "app")
	c.awaitReady(t, grant, "use")
	c.create(t, role, id, "", "forProvider: {login: true, passwordRotation: {token: two}}, writeConnectionSecretToRef: {name: login}"+by)
	login := c.secret(t, "login", func(data map[string]string) error {
		if data["passwordRotation"] != "two" || data["nextPassword"] != "" {
			return errors.New("wasn't rotated")
		}
		return nil
	})
	if !c.logsIn(t, id, login["password"]) {
		t.Error("the password in the Secret does not open")
	}
	if got := c.query(t, "postgres", `SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = $1`, id); !strings.Contains(got, c.NS) {
		t.Errorf("the database's comment is %q", got)
	}
	c.awaitGone(t, grant, "use")
	c.awaitGone(t, inside, "app")
	c.awaitGone(t, database, id)
	c.awaitGone(t, role, id)
	if got := c.query(t, "postgres", `SELECT (SELECT count(*) FROM pg_database WHERE datname = $1) + (SELECT count(*) FROM pg_roles WHERE rolname = $1)`, id); got != "0" {
		t.Errorf("%s things are left", got)
	}
	c.expectNoBindings(t)
	if got := p.count(); got != all {
		t.Errorf("%d answers were lost, and were to be %d: %v", got, all, words)
	}
}

// TestAStatementOfAProcessThatStoodStillIsNotExecuted lets statements arrive long after they were decided on, as those of a
// process that was suspended and is no longer the leader. The server has ended the session by then.
func TestAStatementOfAProcessThatStoodStillIsNotExecuted(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	p := newProxy(t, pg.Port, nil)
	p.waited = make(chan bool, 1)
	through := *pg
	through.Port = p.port
	c.createProviderConfig(t, &through, id, c.NS)
	by := ", providerConfigRef: {name: " + id + "}"
	suspend := func(statement string, do func()) {
		t.Helper()
		p.mu.Lock()
		p.late = statement
		p.mu.Unlock()
		do()
		if !<-p.waited {
			t.Errorf("the server still executes %s", statement)
		}
	}
	suspend(`CREATE ROLE "`+id, func() { c.create(t, role, id, "", "forProvider: {}"+by) })
	c.awaitReady(t, role, id)
	c.create(t, database, id, "", "forProvider: {}"+by)
	c.awaitReady(t, database, id)
	suspend(`CREATE SCHEMA "app"`, func() { c.create(t, inside, "app", "", "forProvider: {database: "+id+"}"+by) })
	c.awaitReady(t, inside, "app")
	c.awaitGone(t, inside, "app")
	suspend(`DROP DATABASE "`+id, func() { c.Delete(t, database, c.NS, id) })
	c.AwaitGone(t, database, c.NS, id)
	c.awaitGone(t, role, id)
	c.expectNoBindings(t)
}

// TestAServerIsKilledDuringAStatement kills all processes of the server while it creates a
// database, and starts it again.
func TestAServerIsKilledDuringAStatement(t *testing.T) {
	own, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := testDatabase{suite.New(t), own}
	id := c.id()
	c.createProviderConfig(t, own, id, c.NS)
	by := ", providerConfigRef: {name: " + id + "}"
	c.create(t, role, id, "", "forProvider: {login: true}, writeConnectionSecretToRef: {name: login}"+by)
	c.awaitReady(t, role, id)
	login := c.secret(t, "login", func(map[string]string) error { return nil })
	c.sql(t, "postgres", `CREATE DATABASE pattern`)
	c.sql(t, "pattern", `CREATE TABLE things AS SELECT generate_series(1, 1000) AS n`)

	// Who is in the template keeps the server waiting, in the midst of the statement.
	guest := c.connect(t, postgrestest.Superuser, postgrestest.Password, "pattern")
	c.create(t, database, id, "", "forProvider: {template: pattern, owner: "+id+"}"+by)
	watch := c.connect(t, postgrestest.Superuser, postgrestest.Password, "postgres")
	testkit.Poll(t, "the server makes the database", func() bool {
		var n int
		err := watch.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'CREATE DATABASE "'||$1||'%'`, id).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	if err := own.Kill(); err != nil {
		t.Fatal(err)
	}
	guest.Close(context.Background())
	watch.Close(context.Background())
	c.Await(t, database, c.NS, id, syncedBecause("ReconcileError", "connect"))
	if err := own.Run(); err != nil {
		t.Fatal(err)
	}
	c.awaitReady(t, database, id)
	if got := c.query(t, id, `SELECT format('%s %s %s', count(*), (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()), (SELECT shobj_description(oid, 'pg_database') LIKE 'managed by espalier: %' FROM pg_database WHERE datname = current_database())) FROM things`); got != "1000 "+id+" t" {
		t.Errorf("there is %s", got)
	}
	if got := c.query(t, "postgres", `SELECT count(*) FROM pg_database WHERE datname LIKE $1`, id+"%"); got != "1" {
		t.Errorf("there are %s databases", got)
	}
	if !c.logsIn(t, id, login["password"]) {
		t.Error("the role does not log in any more")
	}
	c.awaitGone(t, database, id)
	c.awaitGone(t, role, id)
	if got := c.query(t, "postgres", `SELECT (SELECT count(*) FROM pg_database WHERE datname = $1) + (SELECT count(*) FROM pg_roles WHERE rolname = $1)`, id); got != "0" {
		t.Errorf("%s things are left", got)
	}
	c.expectNoBindings(t)
}

// TestTLS connects with the authority of the server's certificate, and with another one.
func TestTLS(t *testing.T) {
	c := newTestDatabase(t)
	id := c.id()
	other, err := certificate.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		ca        []byte
		host, tls string
		refused   string
	}{
		"full":     {ca: pg.CA, host: "localhost", tls: "{mode: verify-full, caSecretRef: {name: %s}}"},
		"default":  {ca: pg.CA, host: "localhost", tls: "{caSecretRef: {name: %s}}"},
		"another":  {ca: other.PEM, host: "localhost", tls: "{caSecretRef: {name: %s}}", refused: "certificate signed by unknown authority"},
		"name":     {ca: pg.CA, host: "127.0.0.1", tls: "{caSecretRef: {name: %s}}", refused: "doesn't contain any IP SANs"},
		"renamed":  {ca: pg.CA, host: "127.0.0.1", tls: "{caSecretRef: {name: %s}, serverName: localhost}"},
		"ca":       {ca: pg.CA, host: "127.0.0.1", tls: "{mode: verify-ca, caSecretRef: {name: %s}}"},
		"ca-other": {ca: other.PEM, host: "127.0.0.1", tls: "{mode: verify-ca, caSecretRef: {name: %s}}", refused: "certificate signed by unknown authority"},
		"require":  {ca: other.PEM, host: "127.0.0.1", tls: "{mode: require, caSecretRef: {name: %s}}"},
		"unknown":  {ca: pg.CA, host: "localhost", tls: "{}", refused: "certificate signed by unknown authority"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: %[1]s, namespace: $NS}
stringData:
  username: postgres
  password: "%[2]s"
  ca.crt: %[3]q
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ProviderConfig
metadata: {name: %[1]s, namespace: $NS}
spec: {host: %[4]s, port: %[5]d, credentials: {secretRef: {name: %[1]s}}, tls: %[6]s}
`, name, postgrestest.Password, tc.ca, tc.host, pg.Port, strings.ReplaceAll(tc.tls, "%s", name)))
			c.create(t, role, id+"-"+name, "", "forProvider: {}, providerConfigRef: {kind: ProviderConfig, name: "+name+"}")
			if tc.refused != "" {
				c.Await(t, role, c.NS, id+"-"+name, syncedBecause("ReconcileError", tc.refused))
				if got := c.query(t, "postgres", `SELECT count(*) FROM pg_roles WHERE rolname = $1`, id+"-"+name); got != "0" {
					t.Error("it was made all the same")
				}
				return
			}
			c.awaitReady(t, role, id+"-"+name)
			c.awaitGone(t, role, id+"-"+name)
		})
	}
}
