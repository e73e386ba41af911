package org.apache.spark.sql.laneshift.api

import java.util.Base64

import org.sparkproject.spark_core.protobuf.Message

import org.apache.spark.sql.laneshift.proto.{ControlMessages => pb}

/** What a call gives, or why it failed, as Python reads it: an Answer's bytes as Base64, since py4j's own form for bytes is read in
  * Python one by one.
  */
private[api] object Answer {
  def apply(reply: => Message): String = {
    val answer = pb.Answer.newBuilder()
    try answer.setReply(reply.toByteString)
    catch { case problem: ApiError => answer.setFailure(failure(problem)) }
    Base64.getEncoder.encodeToString(answer.build().toByteArray)
  }

  def failure(problem: ApiError): pb.Failure = {
    val out = pb.Failure.newBuilder()
      .setCondition(problem.condition)
      .setSqlstate(problem.sqlState)
      .setMessage(problem.getMessage)
    problem.parameters.foreach { case (name, value) => out.putParameters(name, value.toString) }
    out.build()
  }
}
