# The paper's model of time. Eq. 5: seconds from the first pass of a step to its last with `stages` stages and `micro`
# micro-batches, of which the first `adjusted` stages run ahead and take `slow` for each micro-batch, the others `even`:
# the slowest of either kind. Equal stages make it Eq. 3. Copies are taken to be hidden.
function get_time(stages, micro, adjusted, even, slow,   s, time, busy) {
  time = 0
  for (s = stages - 1; s >= 0; s--) {
    if (s >= adjusted) {
      time = even * (micro + stages - s - 1)
      continue
    }
    busy = slow * (micro + adjusted - 1 - s)
    time = time + slow > busy ? time + slow : busy
  }
  return time
}
