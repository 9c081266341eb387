// Package graph implements function-graph, which composes a graph of resources: its input is
// the resources of a ResourceGraphDefinition.
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
// In expressions, schema is the observed composite without its status, and each id is the
// observed resource of that name. If a template sets no name or namespace, the engine
// chooses it. An externalRef without a namespace refers to the composite's namespace; for a
// cluster-scoped kind, a namespaced composite sets the namespace to ${""}.
//
// Each item of a collection is a resource. Its name is made of the collection's id and the
// name of the object, so the template must set metadata.name. An externalRef with a selector
// becomes a required resource with labels.
//
// A resource waits until the resources that it reads exist and are ready; so the order of
// creation follows from the expressions. A waiting resource is not desired yet. If it exists
// already, it stays as it was last applied. Meanwhile the composite isn't ready. The order
// of deletion is written to annotations of the resources, which inventory.PlaceOf reads.
//
// Expressions are type-checked if the engine provides schemas, and otherwise fail when they
// are evaluated.
//
// Pure: it decides from values alone.
package graph
