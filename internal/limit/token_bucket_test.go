package limit

const ms = Millisecond
