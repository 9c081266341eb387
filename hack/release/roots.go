package main

import (
	"bytes"
	"encoding/pem"
	"runtime/debug"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootCertificates is a file with the certificate authorities that Mozilla trusts, of the version in
// go.sum. Those that Mozilla trusts only for certificates before some date are left out, since a file
// cannot say so.
func rootCertificates() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// rootsModule is the module that has the authorities.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// rootsComponent describes the authorities in an SBOM.
func rootsComponent() cyclonedx.Component {
	c := cyclonedx.Component{Type: cyclonedx.ComponentTypeData, Name: rootsModule, Licenses: licensesOf([]string{"BSD-3-Clause"})}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == rootsModule {
				c.Version, c.Hashes = m.Version, hashesOf(m.Sum)
			}
		}
	}
	c.PackageURL = packageURL(rootsModule, c.Version)
	c.BOMRef = c.PackageURL
	return c
}
