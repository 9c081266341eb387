// Package curve tells how a measured value grows with a size: by its exponent, and in a chart.
//
// Pure: it computes numbers and text.
package curve

import "math"

// Point is a value that was measured at a size.
type Point struct {
	Size  float64 `json:"size"`
	Value float64 `json:"value"`
}

// Exponent returns the k of size^k that fits the points best, by least squares of their logarithms: 0 if
// the value does not depend on the size, 1 if it is proportional to the size. Points whose size or
// value is not positive have no logarithm and do not count. It is false if fewer than two sizes are left.
func Exponent(points []Point) (exponent float64, ok bool) {
	var n, sumX, sumY float64
	for _, p := range points {
		if p.drawable() {
			n, sumX, sumY = n+1, sumX+math.Log(p.Size), sumY+math.Log(p.Value)
		}
	}
	var covariance, variance float64
	for _, p := range points {
		if p.drawable() {
			x, y := math.Log(p.Size)-sumX/n, math.Log(p.Value)-sumY/n
			covariance, variance = covariance+x*y, variance+x*x
		}
	}
	if variance == 0 {
		return 0, false
	}
	return covariance / variance, true
}

// drawable reports whether a point has a place on logarithmic axes.
func (p Point) drawable() bool { return p.Size > 0 && p.Value > 0 }
