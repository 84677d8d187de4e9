// Package version has the version of Weir.
package version

// Version is that of the release which this tree is, or will be. All that Weir builds states it: programs,
// filter, images and chart. Whoever makes a release changes it here, in CHANGELOG.md and in the chart; tests
// compare them.
const Version = "v0.1.0"
