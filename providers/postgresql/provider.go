// Package postgresql is the provider of PostgreSQL servers: roles, databases, schemas,
// extensions and grants. Each call is one transaction, sent as one text. Pure functions
// compute its statements from the observed state.
// See docs/design/0018-providers.md.
package postgresql

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Options configure the provider.
type Options struct {
	// LocalServers allows ProviderConfigs, which belong to a namespace, to name servers on the machine that this
	// program runs on.
	LocalServers bool
	// Now is the clock for the rotation and expiry of passwords: the controllers' clock. The default is the wall clock.
	Now func() time.Time
}

// Provider returns the provider.
func Provider(o Options) managed.Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	servers := &pools{options: o}
	database := managed.Reference{Field: "database", To: v1alpha1.GroupVersion.WithKind("Database")}
	inSchema := managed.Reference{Field: "schema", To: v1alpha1.GroupVersion.WithKind("Schema")}
	role := func(field string) managed.Reference {
		return managed.Reference{Field: field, To: v1alpha1.GroupVersion.WithKind("Role")}
	}
	groups := managed.Reference{Field: "memberOf", Ref: "memberOfRefs", Selector: "memberOfSelector", List: true, To: v1alpha1.GroupVersion.WithKind("Role")}
	return managed.Provider{
		Name: "postgresql",
		CRDs: v1alpha1.CRDs,
		Configs: []schema.GroupVersionKind{
			v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterProviderConfigKind), v1alpha1.GroupVersion.WithKind(v1alpha1.ProviderConfigKind),
		},
		Kinds: []managed.Kind{
			serve(servers, func() *v1alpha1.Role { return &v1alpha1.Role{} }, roles, true, groups, database, role("reassignOwnedTo")),
			serve(servers, func() *v1alpha1.Database { return &v1alpha1.Database{} }, databases, false, role("owner")),
			serve(servers, func() *v1alpha1.Schema { return &v1alpha1.Schema{} }, schemas, true, database, role("owner")),
			serve(servers, func() *v1alpha1.Extension { return &v1alpha1.Extension{} }, extensions, true, database, inSchema),
			serve(servers, func() *v1alpha1.Grant { return &v1alpha1.Grant{} }, grants, false, role("role"), role("memberOf"), database, inSchema),
		},
	}
}

// maxCallTime limits a call. The limit of the configuration, session.callTimeout, is usually
// shorter.
const maxCallTime = time.Hour

// serve returns the managed.Kind of a kind. Marked reports whether resources carry their mark from their creation on: a
// database gets it by the next call, because CREATE DATABASE cannot be in a transaction.
func serve[M managed.Object](servers *pools, empty func() M, k kind[M], marked bool, references ...managed.Reference) managed.Kind {
	return managed.For(managed.Definition[M]{
		Kind:       v1alpha1.GroupVersion.WithKind(k.typ),
		New:        empty,
		References: references,
		Timeout:    maxCallTime,
		Caps:       func() external.Caps { return external.Caps{Naming: external.CallerAssigned, Marked: marked} },
		Connect: func(_ context.Context, objects managed.Objects, m M) (managed.Client[M], error) {
			s, shared, err := servers.options.readServer(objects, m, k.spec(m).ProviderConfigRef)
			if err != nil {
				return nil, err
			}
			c := &client[M]{kind: k, session: &session{server: s, servers: servers, objects: objects, sharing: shared}}
			return c, c.checkBeforeUse(k.needs(c.session, m), m.GetDeletionTimestamp() != nil)
		},
	})
}
