// Package graph is the function that composes a graph of resources: what a
// ResourceGraphDefinition says of its resources, as the input of a step.
//
//	apiVersion: graph.fn.espalier.dev/v1alpha1
//	kind: Graph
//	spec:
//	  resources:
//	  - id: vpc
//	    template: {apiVersion: …, kind: VPC, spec: {cidr: "${schema.spec.cidr}"}}
//	  - id: subnet
//	    template: {apiVersion: …, kind: Subnet, spec: {vpc: "${vpc.status.id}"}}
//	  status:
//	    vpc: ${vpc.status.id}
//
// In expressions schema is the observed composite without its status, and each id the
// observed resource of that name. Names and namespaces that templates leave open are the
// engine's to choose. A reference without a namespace means the composite's; one to a
// cluster-scoped kind by a composite in a namespace says ${""}.
//
// An item of a collection is a resource of its own, by the collection and the name of its
// object, which its template therefore has to say. What a selector matches is a required
// resource by labels.
//
// A resource waits until what it reads is there and ready, so that the order of creation
// follows from what reads what. While it waits it isn't wanted yet, unless it is there
// already: then it stays as it was last applied, and the composite isn't ready. The order
// of deletion is written on the resources as on those of definitions: annotations that
// inventory.PlaceOf reads.
//
// Expressions are typed where the engine tells schemas, and else when they are evaluated.
//
// Pure: it decides from values alone.
package graph
