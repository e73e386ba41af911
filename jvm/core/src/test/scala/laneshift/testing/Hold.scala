package laneshift.testing

import java.util.concurrent.CountDownLatch

/** Where others wait, rows for instance, from [[begin]] to [[end]]. */
final class Hold {
  @volatile private var ended = new CountDownLatch(0)

  def begin(): Unit = ended = new CountDownLatch(1)
  def end(): Unit = ended.countDown()
  def pass(): Unit = ended.await()
}
