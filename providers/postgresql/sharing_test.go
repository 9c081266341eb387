package postgresql

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

func TestAllowedNamespaces(t *testing.T) {
	selector := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	cases := map[string]struct {
		reason  string
		allowed *v1alpha1.AllowedNamespaces
		want    bool
	}{
		"unset":                {"a ClusterProviderConfig is for all namespaces", nil, true},
		"empty":                {"it names and selects none", &v1alpha1.AllowedNamespaces{}, false},
		"named":                {"", &v1alpha1.AllowedNamespaces{Names: []string{"other", "team"}}, true},
		"others are named":     {"", &v1alpha1.AllowedNamespaces{Names: []string{"team-2"}}, false},
		"selected":             {"", &v1alpha1.AllowedNamespaces{Selector: selector("shares", "db")}, true},
		"others are selected":  {"", &v1alpha1.AllowedNamespaces{Selector: selector("shares", "nothing")}, false},
		"named, not selected":  {"one of both suffices", &v1alpha1.AllowedNamespaces{Names: []string{"team"}, Selector: selector("shares", "nothing")}, true},
		"all are selected":     {"an empty selector matches all", &v1alpha1.AllowedNamespaces{Selector: &metav1.LabelSelector{}}, true},
		"an invalid selector":  {"it allows none", &v1alpha1.AllowedNamespaces{Selector: selector("a b", "c")}, false},
		"named by its own tag": {"the API server sets this label", &v1alpha1.AllowedNamespaces{Selector: selector("kubernetes.io/metadata.name", "team")}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkNamespace("ClusterProviderConfig default", "team", tc.allowed, map[string]string{"shares": "db", "kubernetes.io/metadata.name": "team"})
			if (err == nil) != tc.want {
				t.Errorf("%s: want allowed %t, got %v", tc.reason, tc.want, err)
			}
		})
	}
}

// TestWhatASharedConfigurationRefuses lists what a managed resource needs to be allowed beside
// what concerns its namespace alone, which manages the role mine and the database shop.
func TestWhatASharedConfigurationRefuses(t *testing.T) {
	yes := ptr(true)
	known := facts{
		Roles: map[string]bool{"mine": true}, Databases: map[string]bool{"shop": true}, Templates: map[string]bool{"template0": true},
		UserParameters: map[string]bool{"search_path": true, "app.tenant": true},
		Untrusted:      map[string][]string{"dblink": {"dblink"}, "earthdistance": {"cube"}},
	}
	cases := map[string]struct {
		needs []need
		want  string // allowances
		field string // of the first
	}{
		"a role of its own":                    {needs: roleNeeds(v1alpha1.RoleParameters{Login: yes, Inherit: yes, MemberOf: []string{"mine"}, Superuser: ptr(false)})},
		"superuser":                            {roleNeeds(v1alpha1.RoleParameters{Superuser: yes}), "Superuser", "spec.forProvider.superuser"},
		"createRole":                           {roleNeeds(v1alpha1.RoleParameters{CreateRole: yes}), "CreateRole", "spec.forProvider.createRole"},
		"createDB":                             {roleNeeds(v1alpha1.RoleParameters{CreateDB: yes}), "CreateDB", "spec.forProvider.createDB"},
		"replication":                          {roleNeeds(v1alpha1.RoleParameters{Replication: yes}), "Replication", "spec.forProvider.replication"},
		"bypassRLS":                            {roleNeeds(v1alpha1.RoleParameters{BypassRLS: yes}), "BypassRLS", "spec.forProvider.bypassRLS"},
		"membership in a predefined role":      {roleNeeds(v1alpha1.RoleParameters{MemberOf: []string{"mine", "pg_execute_server_program"}}), "ForeignRoles", "spec.forProvider.memberOf"},
		"giving its functions to a superuser":  {newOwnerNeeds(v1alpha1.RoleParameters{ReassignOwnedTo: ptr("postgres")}), "ForeignRoles", "spec.forProvider.reassignOwnedTo"},
		"giving its objects to its own role":   {needs: newOwnerNeeds(v1alpha1.RoleParameters{ReassignOwnedTo: ptr("mine")})},
		"parameters of users and applications": {needs: roleNeeds(v1alpha1.RoleParameters{Configuration: map[string]string{"Search_Path": "a", "app.tenant": "b"}})},
		"a parameter of superusers":            {roleNeeds(v1alpha1.RoleParameters{Configuration: map[string]string{"session_preload_libraries": "x"}}), "SuperuserParameters", "spec.forProvider.configuration"},
		"resetting a parameter of superusers":  {roleState{Config: map[string]string{"log_statement": "all", "search_path": "a"}}.resetNeeds(v1alpha1.RoleParameters{Configuration: map[string]string{}}), "SuperuserParameters", "spec.forProvider.configuration"},
		"leaving parameters alone":             {needs: roleState{Config: map[string]string{"log_statement": "all"}}.resetNeeds(v1alpha1.RoleParameters{})},
		"an existing role":                     {[]need{roleNeed("the external name", "postgres")}, "ForeignRoles", "the external name"},
		"a database of its own":                {needs: databaseNeeds(v1alpha1.DatabaseParameters{Owner: ptr("mine"), Tablespace: ptr("pg_default")}, "admin")},
		"a database of the connecting user":    {needs: databaseNeeds(v1alpha1.DatabaseParameters{Owner: ptr("admin")}, "admin")},
		"a database for another owner":         {databaseNeeds(v1alpha1.DatabaseParameters{Owner: ptr("theirs")}, "admin"), "ForeignRoles", "spec.forProvider.owner"},
		"another tablespace":                   {databaseNeeds(v1alpha1.DatabaseParameters{Tablespace: ptr("fast")}, "admin"), "Tablespaces", "spec.forProvider.tablespace"},
		"a copy of another database":           {copyNeeds(v1alpha1.DatabaseParameters{Template: ptr("theirs")}), "ForeignDatabases", "spec.forProvider.template"},
		"a copy of its own":                    {needs: copyNeeds(v1alpha1.DatabaseParameters{Template: ptr("shop")})},
		"a copy of a template":                 {needs: copyNeeds(v1alpha1.DatabaseParameters{Template: ptr("template0")})},
		"a schema of its own database":         {needs: needsOfSchema("public", v1alpha1.SchemaParameters{Database: ptr("shop"), Owner: ptr("pg_database_owner")}, "admin")},
		"a schema in another database":         {needsOfSchema("app", v1alpha1.SchemaParameters{Database: ptr("theirs")}, "admin"), "ForeignDatabases", "spec.forProvider.database"},
		"a schema for another owner":           {needsOfSchema("app", v1alpha1.SchemaParameters{Database: ptr("shop"), Owner: ptr("theirs")}, "admin"), "ForeignRoles", "spec.forProvider.owner"},
		"a schema of the system":               {needsOfSchema("pg_catalog", v1alpha1.SchemaParameters{Database: ptr("shop"), Owner: ptr("mine")}, "admin"), "SystemSchemas", "the name"},
		"a trusted extension":                  {needs: extensionNeeds("citext", v1alpha1.ExtensionParameters{Database: ptr("shop"), Cascade: yes})},
		"an untrusted extension":               {extensionNeeds("dblink", v1alpha1.ExtensionParameters{Database: ptr("shop"), Name: ptr("dblink")}), "UntrustedExtensions", "spec.forProvider.name"},
		"one that requires an untrusted one":   {needs: extensionNeeds("earthdistance", v1alpha1.ExtensionParameters{Database: ptr("shop")})},
		"and creates it":                       {extensionNeeds("earthdistance", v1alpha1.ExtensionParameters{Database: ptr("shop"), Cascade: yes}), "UntrustedExtensions", "the name"},
		"an extension in another database":     {extensionNeeds("citext", v1alpha1.ExtensionParameters{Database: ptr("theirs")}), "ForeignDatabases", "spec.forProvider.database"},
		"an extension in a system schema":      {extensionNeeds("citext", v1alpha1.ExtensionParameters{Database: ptr("shop"), Schema: ptr("pg_catalog")}), "SystemSchemas", "spec.forProvider.schema"},
		"privileges in its own database":       {needs: grantNeeds(v1alpha1.GrantParameters{Role: ptr("mine"), Database: ptr("shop"), Schema: ptr("app")})},
		"privileges for everybody":             {needs: grantNeeds(v1alpha1.GrantParameters{Role: ptr("public"), Database: ptr("shop")})},
		"privileges in another database":       {grantNeeds(v1alpha1.GrantParameters{Role: ptr("mine"), Database: ptr("theirs")}), "ForeignDatabases", "spec.forProvider.database"},
		"privileges for another role":          {grantNeeds(v1alpha1.GrantParameters{Role: ptr("theirs"), Database: ptr("shop")}), "ForeignRoles", "spec.forProvider.role"},
		"privileges on functions of the system": {
			grantNeeds(v1alpha1.GrantParameters{Role: ptr("mine"), Database: ptr("shop"), Schema: ptr("pg_catalog"), Objects: []string{"pg_read_file"}}), "SystemSchemas", "spec.forProvider.schema",
		},
		"privileges on a named function of others": {namedNeeds(nil, "EXECUTE"), "ForeignRoles", "spec.forProvider.objects"},
		"granting others what is granted for oneself": {
			namedNeeds(map[string]bool{"EXECUTE": false}, "EXECUTE", "USAGE"), "ForeignRoles", "spec.forProvider.objects",
		},
		"what is granted already":  {needs: namedNeeds(map[string]bool{"EXECUTE": false}, "EXECUTE")},
		"revoking what others own": {needs: namedNeeds(map[string]bool{"EXECUTE": false, "USAGE": false}, "USAGE")},
		"adopting what others have granted on a named function": {
			adoptionNeeds([]string{"f", "dblink_connect_u"}, map[string]bool{"EXECUTE": false}), "ForeignRoles", "spec.forProvider.objects",
		},
		"adopting what others have granted on all functions": {adoptionNeeds(nil, map[string]bool{"EXECUTE": false}), "ForeignRoles", "spec.forProvider.schema"},
		"adopting what is granted on functions of one's own": {needs: adoptionNeeds(nil, nil)},
		"a granted membership":                               {grantNeeds(v1alpha1.GrantParameters{Role: ptr("mine"), MemberOf: ptr("postgres")}), "ForeignRoles", "spec.forProvider.memberOf"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			shared := sharing{Config: "ClusterProviderConfig default", Namespace: "team"}
			var got []string
			for _, n := range tc.needs {
				if !known.isMet(n) {
					got = append(got, string(n.Allowance))
				}
			}
			if d := cmp.Diff(tc.want, strings.Join(got, " ")); d != "" {
				t.Fatal(d)
			}
			err := shared.check(tc.needs, known)
			var denied *external.NotAllowedError
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.As(err, &denied) || !strings.HasPrefix(err.Error(), tc.field+": ") || !strings.Contains(err.Error(), "ClusterProviderConfig default does not allow "+tc.want) ||
				!strings.Contains(err.Error(), "add "+tc.want+" to spec.allow") {
				t.Errorf("got %v", err)
			}
			for _, allowance := range []v1alpha1.Allowance{v1alpha1.Allowance(tc.want), v1alpha1.AllowEverything} {
				shared.Allow = []v1alpha1.Allowance{allowance}
				if err := shared.check(tc.needs, known); err != nil {
					t.Errorf("with %s: %v", allowance, err)
				}
			}
			if err := (sharing{}).check(tc.needs, known); err != nil {
				t.Errorf("with the ProviderConfig of a namespace: %v", err)
			}
		})
	}
}

// namedNeeds are the needs of a Grant on a function of the role mine, and on one of postgres, on which the role has some
// privileges.
func namedNeeds(has map[string]bool, wanted ...v1alpha1.Privilege) []need {
	t := target{role: "mine", on: v1alpha1.OnFunctions, database: "shop", schema: "public", objects: []string{"f", "dblink_connect_u"}}
	return t.foreignNeeds(grantState{
		Privileges: map[string]map[string]bool{`"public"."f"()`: {}, `"public"."dblink_connect_u"(text)`: has},
		Owners:     map[string]string{`"public"."f"()`: "mine", `"public"."dblink_connect_u"(text)`: "postgres"}, OwnRoles: map[string]bool{"mine": true},
	}, v1alpha1.GrantParameters{Privileges: wanted})
}

// adoptionNeeds are the needs to adopt a Grant on some functions, or on all of a schema, of the role mine and of postgres.
// On the latter, the role has some privileges.
func adoptionNeeds(objects []string, has map[string]bool) []need {
	t := target{role: "mine", on: v1alpha1.OnFunctions, database: "shop", schema: "public", objects: objects}
	return t.adoptionNeeds(grantState{
		Privileges: map[string]map[string]bool{`"public"."f"()`: {"EXECUTE": false}, `"public"."dblink_connect_u"(text)`: has},
		Owners:     map[string]string{`"public"."f"()`: "mine", `"public"."dblink_connect_u"(text)`: "postgres"}, OwnRoles: map[string]bool{"mine": true},
	})
}

// TestOwnersOfObjectsCountUnlessForeignRolesAreAllowed lists the roles on whose objects a Grant may grant.
func TestOwnersOfObjectsCountUnlessForeignRolesAreAllowed(t *testing.T) {
	cases := map[string]struct {
		sharing sharing
		want    map[string]bool
	}{
		"shared":                        {sharing{Config: "ClusterProviderConfig default", Namespace: "team"}, map[string]bool{"mine": true, "theirs": false, "postgres": false}},
		"shared, with other allowances": {sharing{Config: "ClusterProviderConfig default", Namespace: "team", Allow: []v1alpha1.Allowance{v1alpha1.AllowForeignDatabases}}, map[string]bool{"mine": true, "theirs": false, "postgres": false}},
		"with ForeignRoles":             {sharing{Config: "ClusterProviderConfig default", Namespace: "team", Allow: []v1alpha1.Allowance{v1alpha1.AllowForeignRoles}}, nil},
		"with everything":               {sharing{Config: "ClusterProviderConfig default", Namespace: "team", Allow: []v1alpha1.Allowance{v1alpha1.AllowEverything}}, nil},
		"the ProviderConfig of a team":  {sharing{Namespace: "team"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sess := &session{
				server: server{Host: "h", Port: 1}, sharing: tc.sharing, objects: fakeObjects{"Owner Role mine": {"namespace": "team"}, "Owner Role theirs": {"namespace": "other"}},
			}
			got, err := sess.ownRoles(map[string]string{`"s"."a"`: "mine", `"s"."b"`: "theirs", `"s"."c"`: "postgres", `"s"."d"`: "postgres"})
			if d := cmp.Diff(tc.want, got); d != "" || err != nil {
				t.Errorf("%s %v", d, err)
			}
		})
	}
}

// TestASchemaWithObjectsOfOthersOnlySaysSo has nothing to grant on, and nothing that is granted.
func TestASchemaWithObjectsOfOthersOnlySaysSo(t *testing.T) {
	all := target{role: "mine", on: v1alpha1.OnTables, database: "shop", schema: "public"}
	named := all
	named.objects = []string{"audit"}
	one := map[string]map[string]bool{`"public"."audit"`: {}}
	mine := map[string]bool{"mine": true}
	cases := map[string]struct {
		target     target
		privileges map[string]map[string]bool
		own        map[string]bool
		want       bool
	}{
		"objects of others":               {all, one, mine, true},
		"one of its own too":              {all, map[string]map[string]bool{`"public"."audit"`: {}, `"public"."orders"`: {}}, mine, false},
		"something is granted":            {all, map[string]map[string]bool{`"public"."audit"`: {"SELECT": false}}, mine, false},
		"a named object":                  {named, one, mine, false},
		"no objects":                      {all, nil, mine, false},
		"a configuration that is its own": {all, one, nil, false},
		"a database":                      {target{role: "mine", on: v1alpha1.OnDatabase, database: "shop"}, map[string]map[string]bool{`"shop"`: {}}, nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.target.onlyForeign(grantState{Privileges: tc.privileges, Owners: map[string]string{`"public"."audit"`: "postgres", `"public"."orders"`: "mine"}, OwnRoles: tc.own})
			if (got != "") != tc.want || tc.want && !strings.Contains(got, `"public"."audit" belongs to the role "postgres"`) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestARefusedNamespaceReadsNoCredentials refuses a namespace before the Secret is read.
func TestARefusedNamespaceReadsNoCredentials(t *testing.T) {
	config := map[string]any{"host": "h", "credentials": map[string]any{"secretRef": map[string]any{"name": "login", "namespace": "infra"}}, "allowedNamespaces": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"shares": "db"}},
	}}
	namespace := func(value string) map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"shares": value}}}
	}
	objects := fakeObjects{"ClusterProviderConfig /default": spec(config), "Secret infra/login": nil, "Namespace /team": namespace("nothing")}
	_, _, err := Options{}.readServer(objects, role("team"), nil)
	var denied *external.NotAllowedError
	if !errors.As(err, &denied) || !strings.Contains(err.Error(), "ClusterProviderConfig default: spec.allowedNamespaces") {
		t.Errorf("want a refusal, got %v", err)
	}
	objects["Secret infra/login"], objects["Namespace /team"] = secretData("username", "admin"), namespace("db")
	if _, shared, err := (Options{}).readServer(objects, role("team"), nil); err != nil || shared.Namespace != "team" {
		t.Errorf("got %+v, %v", shared, err)
	}
	t.Log("what is deleted with its object still needs the configuration")
	objects["Namespace /team"] = namespace("nothing")
	terminating := role("team")
	terminating.DeletionTimestamp = &metav1.Time{Time: noon}
	_, shared, err := Options{}.readServer(objects, terminating, nil)
	if err != nil {
		t.Error(err)
	}
	t.Log("but it adopts nothing, whatever the configuration allows other namespaces")
	shared.Allow = []v1alpha1.Allowance{v1alpha1.AllowEverything}
	if got, err := (&session{sharing: shared}).adoptionDenied(context.Background(), nil); err != nil || !strings.Contains(got, "spec.allowedNamespaces") {
		t.Errorf("got %q, %v", got, err)
	}
	t.Log("the ProviderConfig of a namespace restricts nothing")
	objects["ProviderConfig team/mine"] = spec(map[string]any{"host": "h", "credentials": map[string]any{"secretRef": map[string]any{"name": "login"}}, "allowedNamespaces": map[string]any{}})
	objects["Secret team/login"] = secretData("username", "admin")
	if _, shared, err := (Options{}).readServer(objects, role("team"), &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}); err != nil || shared.Config != "" {
		t.Errorf("got %+v, %v", shared, err)
	}
}

// TestARoleOfAnotherNamespaceIsForeign looks up owners by Bindings.
func TestARoleOfAnotherNamespaceIsForeign(t *testing.T) {
	sess := &session{
		server: server{Host: "h", Port: 1}, sharing: sharing{Config: "ClusterProviderConfig default", Namespace: "team"},
		objects: fakeObjects{"Owner Role mine": {"namespace": "team"}, "Owner Role theirs": {"namespace": "other"}, "Owner Database mine2": {"namespace": "team"}},
	}
	for name, want := range map[string]bool{"mine": true, "theirs": false, "nobody's": false, "mine2": false} {
		if err := sess.checkNames([]need{roleNeed("f", name)}); (err == nil) != want {
			t.Errorf("%s: want allowed %t, got %v", name, want, err)
		}
	}
}

// TestADeletedObjectWithoutPermissionAdoptsNothing deletes a managed resource in a database of another
// namespace, which its namespace could not have created.
func TestADeletedObjectWithoutPermissionAdoptsNothing(t *testing.T) {
	sess := &session{
		server: server{Host: "h", Port: 1}, sharing: sharing{Config: "ClusterProviderConfig default", Namespace: "team"},
		objects: fakeObjects{"Owner Database theirs": {"namespace": "other"}},
	}
	needs := []need{databaseNeed("spec.forProvider.database", "theirs")}
	if err := sess.checkBeforeUse(needs, false); err == nil {
		t.Error("it may be created")
	}
	if err := sess.checkBeforeUse(needs, true); err != nil {
		t.Errorf("what it owns cannot be deleted: %v", err)
	}
	if got, err := sess.adoptionDenied(context.Background(), nil); err != nil || !strings.Contains(got, "theirs") {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestErrorsOfConnectionsHaveNoPassword connects where nobody listens, and with an invalid
// certificate.
func TestErrorsOfConnectionsHaveNoPassword(t *testing.T) {
	const password = "word of the administrator"
	for name, s := range map[string]server{
		"nobody listens":        {Host: "127.0.0.1", Port: 1, User: "u", Password: password, TLS: v1alpha1.TLSDisable, Timeout: time.Second},
		"an unknown host":       {Host: "host.invalid", Port: 1, User: "u", Password: password, TLS: v1alpha1.TLSVerifyFull, Timeout: time.Second},
		"an invalid CA":         {Host: "127.0.0.1", Port: 1, User: "u", Password: password, TLS: v1alpha1.TLSVerifyFull, CA: password, Timeout: time.Second},
		"an invalid client key": {Host: "127.0.0.1", Port: 1, User: "u", Password: password, TLS: v1alpha1.TLSRequire, Cert: password, Key: password, Timeout: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.dial(t.Context(), "d"); err == nil || strings.Contains(err.Error(), password) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestADenialNamesTheFieldThatTheUserHasSet has fields of initProvider, which are used at the creation only.
func TestADenialNamesTheFieldThatTheUserHasSet(t *testing.T) {
	forProvider := v1alpha1.RoleParameters{CreateDB: ptr(true), MemberOf: []string{"theirs"}}
	initial := forProvider
	initial.Superuser = ptr(true)
	fields := map[string]bool{}
	for _, n := range creationNeeds(roleNeeds(initial), roleNeeds(forProvider)) {
		fields[n.Field] = true
	}
	want := map[string]bool{"spec.initProvider.superuser": true, "spec.forProvider.createDB": true, "spec.forProvider.memberOf": true}
	if !maps.Equal(fields, want) {
		t.Errorf("the needs name %v", slices.Sorted(maps.Keys(fields)))
	}
}
