package creation

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/postgresql"
	"github.com/espalier-dev/espalier/providers/postgresql/testkit/postgrestest"
	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
)

var (
	role     = v1alpha1.GroupVersion.WithKind("Role")
	database = v1alpha1.GroupVersion.WithKind("Database")
)

// TestSweepPostgreSQLControllersCrashAfterEveryWrite creates, changes and deletes a role, whose password is
// rotated, and a database, with a crash after each write.
func TestSweepPostgreSQLControllersCrashAfterEveryWrite(t *testing.T) {
	pg, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := testkit.ExclusiveServer(t)
	l := login{cluster: testkit.NewCluster(t, config), config: config, pg: pg}
	writes := l.exercise(t, 0)
	runs := 1
	for n := 1; n <= writes && !t.Failed(); n += testkit.Size(9, 1) {
		l.exercise(t, n)
		runs++
	}
	testkit.Report(t, "postgresql: %d lifecycles of a role and a database, with crashes after each of %d writes", runs, writes)
}

// login is a role, whose password is rotated, and a database of it.
type login struct {
	cluster *testkit.Cluster
	config  *rest.Config
	pg      *postgrestest.Server
}

const loginText = `
apiVersion: v1
kind: Secret
metadata: {name: login, namespace: %[1]s}
stringData: {username: %[2]s, password: "%[3]s"}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ProviderConfig
metadata: {name: default, namespace: %[1]s}
spec: {host: 127.0.0.1, port: %[4]d, credentials: {secretRef: {name: login}}, tls: {mode: disable}}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Role
metadata: {name: %[1]s, namespace: %[1]s}
spec:
  providerConfigRef: {kind: ProviderConfig, name: default}
  forProvider: {login: true, passwordRotation: {token: %[5]s}}
  writeConnectionSecretToRef: {name: connection}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Database
metadata: {name: %[1]s, namespace: %[1]s}
spec:
  providerConfigRef: {kind: ProviderConfig, name: default}
  forProvider: {owner: %[1]s, connectionLimit: %[6]d}
`

// exercise creates, changes and deletes both, with a crash after the n-th write, and returns the number
// of writes.
func (l login) exercise(t *testing.T, n int) int {
	t.Helper()
	name := testkit.Namespace(t, l.config)
	crash := testkit.NewCrash(n)
	stop := crash.RunAndRestart(l.config, func(c *rest.Config) func() {
		return start(t, server.Options{Config: c, Providers: []managed.Provider{postgresql.Provider(postgresql.Options{LocalServers: true})}})
	})
	defer stop()
	for generation, token := range []string{"one", "two"} {
		l.cluster.Apply(t, fmt.Sprintf(loginText, name, postgrestest.Superuser, postgrestest.Password, l.pg.Port, token, 5+generation))
		l.cluster.Await(t, role, name, name, isUsable(generation+1))
		l.cluster.Await(t, database, name, name, isUsable(generation+1))
		l.awaitLogin(t, n, name, token)
	}
	if got := l.query(t, `SELECT datconnlimit::text || (shobj_description(oid, 'pg_database') LIKE 'managed by espalier: %') FROM pg_database WHERE datname = $1`, name); got != "6true" {
		t.Errorf("crash at %d: the database is %s", n, got)
	}
	for _, kind := range []schema.GroupVersionKind{database, role} {
		l.cluster.Delete(t, kind, name, name)
		l.cluster.AwaitGone(t, kind, name, name)
	}
	if got := l.query(t, `SELECT ((SELECT count(*) FROM pg_database WHERE datname = $1) + (SELECT count(*) FROM pg_roles WHERE rolname = $1))::text`, name); got != "0" {
		t.Errorf("crash at %d: %s databases and roles remain", n, got)
	}
	l.awaitNoBindings(t, name)
	return crash.Writes()
}

// awaitLogin waits until the Secret has the password of a rotation request, and logs in with it.
func (l login) awaitLogin(t *testing.T, n int, name, token string) {
	t.Helper()
	var password string
	l.cluster.Await(t, suite.Secret, name, "connection", func(o *unstructured.Unstructured) error {
		if o == nil {
			return fmt.Errorf("does not exist")
		}
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		rotation, _ := base64.StdEncoding.DecodeString(data["passwordRotation"])
		if data["nextPassword"] != "" || string(rotation) != token {
			return fmt.Errorf("the password is that of rotation %q", rotation)
		}
		raw, err := base64.StdEncoding.DecodeString(data["password"])
		password = string(raw)
		return err
	})
	conn, err := l.pg.Connect(t.Context(), name, password, "postgres")
	if err != nil {
		t.Fatalf("crash at %d: login with the password in the Secret: %v", n, err)
	}
	conn.Close(context.Background())
}

func (l login) query(t *testing.T, query, name string) string {
	t.Helper()
	conn, err := l.pg.Connect(t.Context(), postgrestest.Superuser, postgrestest.Password, "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var answer string
	if err := conn.QueryRow(t.Context(), query, name).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// isUsable checks that a generation has been reconciled and the object is ready.
func isUsable(generation int) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if err := isSynced(int64(generation))(o); err != nil {
			return err
		}
		return testkit.IsReady(o)
	}
}

// awaitNoBindings waits until no Binding of the role or the database exists.
func (l login) awaitNoBindings(t *testing.T, name string) {
	t.Helper()
	l.cluster.AwaitList(t, binding, "", "", func(objects map[string]*unstructured.Unstructured) error {
		for key, o := range objects {
			if owner, _, _ := unstructured.NestedString(o.Object, "spec", "owner", "name"); strings.HasPrefix(owner, name) {
				return fmt.Errorf("Binding %s remains: %v", key, o.Object["spec"])
			}
		}
		return nil
	})
}
