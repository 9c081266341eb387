package postgresql

import (
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/postgresql/testkit/postgrestest"
	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
)

var sharedConfig = v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterProviderConfigKind)

// sharedTenant is a user who may do everything with the provider's kinds and Secrets in one
// namespace, and refers to a shared configuration.
type sharedTenant struct {
	*testkit.Cluster
	namespace, config string
}

func (c testDatabase) newTenant(t *testing.T, namespace, config string) sharedTenant {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: tenant, namespace: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenant, namespace: %[1]s}
rules:
- {apiGroups: [postgresql.espalier.dev], resources: ["*"], verbs: ["*"]}
- {apiGroups: [""], resources: [secrets], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{kind: ServiceAccount, namespace: %[1]s, name: tenant}]
`, namespace))
	accounts := kubernetes.NewForConfigOrDie(c.Config).CoreV1().ServiceAccounts(namespace)
	token, err := accounts.CreateToken(t.Context(), "tenant", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	as := rest.AnonymousClientConfig(c.Config)
	as.BearerToken = token.Status.Token
	return sharedTenant{testkit.NewCluster(t, as), namespace, config}
}

// create applies an object with the given fields of its spec in one line.
func (s sharedTenant) create(t *testing.T, kind schema.GroupVersionKind, name, annotations, spec string) {
	t.Helper()
	s.Apply(t, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %q, namespace: %s, annotations: {%s}}\nspec: {providerConfigRef: {name: %s}, %s}\n",
		kind.GroupVersion(), kind.Kind, name, s.namespace, annotations, s.config, spec))
}

func (s sharedTenant) awaitGone(t *testing.T, kind schema.GroupVersionKind, name string) {
	t.Helper()
	s.Delete(t, kind, s.namespace, name)
	s.AwaitGone(t, kind, s.namespace, name)
}

// share creates the ClusterProviderConfig $ID with the superuser's credentials for the given namespaces, which allows
// nothing.
func (c testDatabase) share(t *testing.T, allowedNamespaces string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: shared-login, namespace: default}
stringData: {username: %s, password: "%s"}
---
apiVersion: postgresql.espalier.dev/v1alpha1
kind: ClusterProviderConfig
metadata: {name: %s}
spec:
  host: 127.0.0.1
  port: %d
  credentials: {secretRef: {name: shared-login, namespace: default}}
  tls: {mode: disable}
  allowedNamespaces: {%s}
`, postgrestest.Superuser, postgrestest.Password, c.id(), c.pg.Port, allowedNamespaces))
}

// TestTenantsOfASharedConfigurationReachOnlyTheirOwn attacks a server as a tenant with the
// configuration of a superuser, which another namespace shares.
func TestTenantsOfASharedConfigurationReachOnlyTheirOwn(t *testing.T) {
	c := newTestDatabase(t)
	id, other := c.id(), testkit.Namespace(t, c.Config)
	c.share(t, fmt.Sprintf("names: [%s], selector: {matchLabels: {shares: %s}}", c.NS, id))
	victim, attacker := c.newTenant(t, c.NS, id), c.newTenant(t, other, id)

	t.Log("a namespace manages what belongs together, without any allowance")
	victim.create(t, database, id, "", "forProvider: {ownerRef: {name: "+id+"}, template: template0}")
	victim.create(t, role, id, "", "forProvider: {login: true, configuration: {search_path: app, app.tenant: x}}, writeConnectionSecretToRef: {name: login}")
	victim.create(t, inside, "app", "", "forProvider: {databaseRef: {name: "+id+"}, ownerRef: {name: "+id+"}, onDelete: Cascade}")
	victim.create(t, extension, "pgcrypto", "", "forProvider: {databaseRef: {name: "+id+"}, schemaRef: {name: app}}")
	victim.create(t, grant, "use", "", "forProvider: {roleRef: {name: "+id+"}, databaseRef: {name: "+id+"}, objectType: Schema, schemaRef: {name: app}, privileges: [ALL]}")
	c.awaitReady(t, role, id)
	c.awaitReady(t, database, id)
	c.awaitReady(t, inside, "app")
	c.awaitReady(t, extension, "pgcrypto")
	c.Await(t, grant, c.NS, "use", testkit.IsReady)
	password := c.secret(t, "login", func(map[string]string) error { return nil })["password"]

	t.Log("a namespace that is not allowed gets nothing, and can delete it")
	own := id + "-own"
	attacker.create(t, role, own, "", "forProvider: {login: true}")
	c.Await(t, role, other, own, syncedBecause("NotAllowed", "ClusterProviderConfig "+id, "spec.allowedNamespaces", "namespace "+other))
	attacker.awaitGone(t, role, own)
	attacker.create(t, role, own, "", "forProvider: {login: true}")
	c.Patch(t, schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "", other, `{"metadata":{"labels":{"shares":"`+id+`"}}}`)
	c.AwaitReady(t, role, other, own)
	attacker.create(t, database, own, "", "forProvider: {owner: "+own+"}")
	c.AwaitReady(t, database, other, own)

	c.sql(t, "postgres", `CREATE ROLE "`+id+`-dba"`, `CREATE DATABASE "`+id+`-dba"`)
	c.sql(t, id, `CREATE TABLE app.secrets (n int)`)
	c.sql(t, own, `CREATE SCHEMA dba AUTHORIZATION "`+id+`-dba"`)
	attacker.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: chosen, namespace: "+other+"}\nstringData: {password: chosen}\n")
	attacks := map[string]struct {
		kind              schema.GroupVersionKind
		annotations, spec string
		words             []string
	}{
		"superuser":      {role, "", "forProvider: {superuser: true}", []string{"spec.forProvider.superuser", "does not allow Superuser", "spec.allow"}},
		"initially":      {role, "", "forProvider: {}, initProvider: {bypassRLS: true}", []string{"does not allow BypassRLS"}},
		"predefined":     {role, "", "forProvider: {memberOf: [pg_execute_server_program]}", []string{"does not allow ForeignRoles"}},
		"member":         {role, "", "forProvider: {memberOf: [" + id + "]}", []string{"does not allow ForeignRoles"}},
		"granted":        {grant, "", "forProvider: {role: " + own + ", memberOf: postgres}", []string{"does not allow ForeignRoles"}},
		"heir":           {role, "", "forProvider: {reassignOwnedTo: postgres}", []string{"does not allow ForeignRoles"}},
		"library":        {role, "", "forProvider: {configuration: {session_preload_libraries: x}}", []string{"does not allow SuperuserParameters"}},
		"unlogged":       {role, "", "forProvider: {configuration: {log_statement: none}}", []string{"does not allow SuperuserParameters"}},
		"of-nobody":      {role, "crossplane.io/external-name: " + id + "-dba", "forProvider: {login: true}", []string{"the external name", "does not allow ForeignRoles"}},
		"password":       {role, "crossplane.io/external-name: " + id, "managementPolicies: [Observe, Update], forProvider: {passwordSecretRef: {name: chosen}}", []string{"does not allow ForeignRoles"}},
		"guess":          {role, "crossplane.io/external-name: postgres", "managementPolicies: [Observe], forProvider: {passwordSecretRef: {name: chosen}}", []string{"does not allow ForeignRoles"}},
		"adopted":        {database, "espalier.dev/adopt: IfUnmarked, crossplane.io/external-name: " + id + "-dba", "forProvider: {}", []string{"does not allow ForeignDatabases"}},
		"observed":       {database, "crossplane.io/external-name: " + id, "managementPolicies: [Observe], forProvider: {}", []string{"does not allow ForeignDatabases"}},
		"copy":           {database, "", "forProvider: {template: " + id + "}", []string{"does not allow ForeignDatabases"}},
		"given-away":     {database, "", "forProvider: {owner: " + id + "}", []string{"does not allow ForeignRoles"}},
		"intruder":       {inside, "", "forProvider: {database: " + id + ", owner: " + own + "}", []string{"does not allow ForeignDatabases"}},
		"system":         {inside, "crossplane.io/external-name: pg_catalog", "forProvider: {database: " + own + ", owner: " + own + "}", []string{"does not allow SystemSchemas"}},
		"of-another":     {inside, "espalier.dev/adopt: IfUnmarked, crossplane.io/external-name: dba", "forProvider: {database: " + own + ", owner: " + own + ", onDelete: Cascade}", []string{"the external name", `"` + id + `-dba"`, "does not allow ForeignRoles"}},
		"files":          {grant, "", "forProvider: {role: " + own + ", database: " + own + ", objectType: Functions, schema: pg_catalog, objects: [pg_read_file], privileges: [EXECUTE]}", []string{"does not allow SystemSchemas"}},
		"others-tables":  {grant, "", "forProvider: {role: " + own + ", database: " + id + ", objectType: Tables, schema: app, privileges: [ALL]}", []string{"does not allow ForeignDatabases"}},
		"dblink":         {extension, "", "forProvider: {database: " + own + "}", []string{"does not allow UntrustedExtensions"}},
		"file-fdw":       {extension, "", "forProvider: {name: file_fdw, database: " + own + "}", []string{"does not allow UntrustedExtensions"}},
		"adminpack":      {extension, "", "forProvider: {database: " + own + "}", []string{"does not allow UntrustedExtensions"}},
		"citext":         {extension, "", "forProvider: {database: " + id + "}", []string{"does not allow ForeignDatabases"}},
		"earthdistance":  {extension, "", "forProvider: {database: " + own + ", cascade: true}", []string{"does not allow UntrustedExtensions"}},
		"other-place":    {database, "", "forProvider: {tablespace: pg_global}", []string{"does not allow Tablespaces"}},
		"creates-others": {role, "", "forProvider: {createRole: true}", []string{"does not allow CreateRole"}},
	}
	name := func(attack string) string {
		if kind := attacks[attack].kind; kind == role || kind == database {
			return id + "-" + attack
		}
		return attack
	}
	for attack, a := range attacks {
		attacker.create(t, a.kind, name(attack), a.annotations, a.spec)
	}
	for attack, a := range attacks {
		t.Log(attack)
		c.Await(t, a.kind, other, name(attack), syncedBecause("NotAllowed", append(a.words, "ClusterProviderConfig "+id)...))
	}
	unchanged := func() {
		t.Helper()
		for query, want := range map[string]string{ // $1 is a prefix of all names
			`SELECT count(*) FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member WHERE r.rolname LIKE $1`:      "0",
			`SELECT count(*) FROM pg_roles WHERE rolname LIKE $1`:                                                     "3",
			`SELECT count(*) FROM pg_database WHERE datname LIKE $1`:                                                  "3",
			`SELECT count(*) FROM pg_roles WHERE rolname LIKE $1 AND (rolsuper OR rolbypassrls OR rolcreaterole)`:     "0",
			`SELECT string_agg(pg_get_userbyid(datdba), ' ' ORDER BY datname) FROM pg_database WHERE datname LIKE $1`: id + " postgres " + own,
		} {
			if got := c.query(t, "postgres", query, id+"%"); got != want {
				t.Errorf("%s: got %s, want %s", query, got, want)
			}
		}
		if got := c.query(t, own, `SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'dba'`); got != id+"-dba" {
			t.Errorf("the schema dba belongs to %q", got)
		}
		if !c.logsIn(t, id, password) || !c.logsIn(t, postgrestest.Superuser, postgrestest.Password) {
			t.Error("a password was changed")
		}
	}
	unchanged()

	t.Log("their deletion changes nothing either")
	for attack, a := range attacks {
		attacker.awaitGone(t, a.kind, name(attack))
	}
	unchanged()

	t.Log("an event says so too")
	victim.create(t, role, id+"-super", "", "forProvider: {superuser: true}")
	c.AwaitEvent(t, id+"-super", "NotAllowed", "does not allow Superuser")
	victim.awaitGone(t, role, id+"-super")

	t.Log("an extension that an administrator has created in a namespace's database is not deleted for it")
	c.sql(t, own, `CREATE EXTENSION dblink`)
	attacker.Apply(t, fmt.Sprintf(`
apiVersion: postgresql.espalier.dev/v1alpha1
kind: Extension
metadata: {name: drop, namespace: %s, finalizers: [finalizer.managedresource.crossplane.io], annotations: {crossplane.io/external-name: dblink}}
spec: {providerConfigRef: {name: %s}, forProvider: {database: %s, onDelete: Cascade}}
`, other, id, own))
	attacker.awaitGone(t, extension, "drop")
	if got := c.query(t, own, `SELECT count(*) FROM pg_extension WHERE extname = 'dblink'`); got != "1" {
		t.Error("the extension is gone")
	}

	t.Log("what an administrator allows is done at once")
	attacker.create(t, role, id+"-bypass", "", "forProvider: {bypassRLS: true}")
	c.Await(t, role, other, id+"-bypass", syncedBecause("NotAllowed", "BypassRLS"))
	c.Patch(t, sharedConfig, "", id, `{"spec":{"allow":["BypassRLS"]}}`)
	c.AwaitReady(t, role, other, id+"-bypass")
	attacker.awaitGone(t, role, id+"-bypass")

	t.Log("a namespace that is no longer allowed keeps what it has, and can delete it")
	c.Patch(t, sharedConfig, "", id, `{"spec":{"allowedNamespaces":{"names":["default"],"selector":null}}}`)
	c.Await(t, role, other, own, syncedBecause("NotAllowed", "spec.allowedNamespaces"))
	if got := c.query(t, "postgres", `SELECT count(*) FROM pg_roles WHERE rolname = $1`, own); got != "1" {
		t.Error("the role is gone")
	}
	attacker.awaitGone(t, database, own)
	attacker.awaitGone(t, role, own)
	victim.awaitGone(t, grant, "use")
	victim.awaitGone(t, extension, "pgcrypto")
	victim.awaitGone(t, inside, "app")
	victim.awaitGone(t, database, id)
	victim.awaitGone(t, role, id)
	if got := c.query(t, "postgres", `SELECT (SELECT count(*) FROM pg_roles WHERE rolname LIKE $1) + (SELECT count(*) FROM pg_database WHERE datname LIKE $1)`, id+"%"); got != "2" {
		t.Errorf("%s roles and databases are left, and 2 are the administrator's", got)
	}
	c.sql(t, "postgres", `DROP ROLE "`+id+`-dba"`, `DROP DATABASE "`+id+`-dba"`)
	c.expectNoBindings(t)
}
